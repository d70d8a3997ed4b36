"""Snapshot files: a tree of values as one file, and back.

    file       writing, opening, and the bytes alone
    head       what a file says of itself;  head_text, layout: its text,  entries: its tensors
    writing    the bytes;  temporary, sweep: files that are not finished
    reading    the value, on the devices where it is wanted;  source: where from

Names are imported from the modules, so that a tool that only looks at heads loads no torch.
"""
