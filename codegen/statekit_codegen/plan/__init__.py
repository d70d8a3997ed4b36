"""Plan: how many sessions a deployment holds, from schemas alone.

question   what is asked: budgets, step, numbers, ranks
need       what one session needs on each device, and what of it can go while nobody uses it
crowd      what so many sessions take, and how many fit
gain       what would make room for more
answer     all of it for each model, and for several in given proportions
curve      bytes of a session, step by step
words, text, chart, document, svg   the same for people, for programs, as a picture
"""
