"""The walk over what a value refers to, and the memory of each kind of object met on it."""
