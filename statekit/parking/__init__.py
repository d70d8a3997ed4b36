"""Where values wait while nobody uses them: host memory beside an accelerator, and files.

    tier      the contract: two phases, one good copy at any time
    host      accelerator memory to host memory;  pool: its pinned buffers,  cuda: its copies
    disk      any memory to a file;  folder: whose files they are,  parked_file: one file

Names are imported from the modules, so that a process without a use for a tier does not load it.
"""
