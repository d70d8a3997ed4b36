"""Review of a change: what of the recorded decisions is not as it was on the other side.

facets       what of a value, and of a model, is compared, each as one text
comparison   the edits, what became of each value, and what that does to bytes: data only
text         the layout on a terminal and in a pipe
markdown     the layout for a comment on a pull request
records      the JSON document, and annotations of GitHub

Who is hurt by a change is another question: see `statekit_codegen.breaking`.
"""
