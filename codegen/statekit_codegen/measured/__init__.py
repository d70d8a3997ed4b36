"""What a run has shown, for people: read, laid out, drawn, and written back into schemas.

    running    runs a command that records itself
    reading    recordings from files
    schemas    the files that a run is compared with
    report     what is told of a run: rows, numbers, findings
    text, document    the report for a person, for a program
    picture    bytes over steps: where everything stands; svg, png draw it
    blocks     the `measured` blocks that a run gives; write_back puts them into a file

What is measured, and what follows from it, is `statekit.measure`. Nothing here loads torch.
"""
