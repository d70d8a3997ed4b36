"""Capture: a cheap picture of a session, and what is made of it.

picture   what is copied of a value that is changed where it is
capture   a session at one moment, to go back to or to make another one of
step      a forward that happens whole or not at all
fork      a session that goes on in several ways, of which one is kept
"""
