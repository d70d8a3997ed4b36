"""What `statekit simulate` asks for, and how it tells what came of it.

asking    from a command line to a report and its files
report    the question and the figures, and both as JSON
words     figures as text
text      a report on a terminal
page      a report as a table of a page
svg       a report as drawings
"""
