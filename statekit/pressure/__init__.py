"""What happens when a device is over its budget: facts, a plan, and its execution.

budget         what was allowed, in bytes by device
release_units  which objects go together, from a model's spec
plan, planner  recorded facts in, ordered decisions out: a pure function
putting_away   values of one session parked together, and brought back on the next use
facts          what a record says to the planner
relief         carries decisions out, and says what happened
"""
