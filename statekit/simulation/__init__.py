"""A service in virtual time: the real planner and the real placement, bytes without tensors.

dice      random numbers that are the same on every machine
shape     the states that a session can be in
picture   what a session holds after a step, in each of these states
kind      a model as a simulation sees it
workload  who comes when, for how many steps, with which pauses
links     how long bytes are on their way
session   one session, as numbers
books     the sums of one replica
relief    what a replica gives up, by the real planner
replica   one manager with budgets: admission, growth and return, by the runtime's own rules
counting  one manager of the contract that counts sessions
fleet     many replicas, and which of them a session goes to
run       the loop over virtual time
outcome   what is reported
"""
