"""The review page: one self-contained HTML file that shows what sessions hold, and why.

page        the file: templates, style, script, and the policy that allows nothing else
table       the decisions, a row for each value, with what changed of it
bars        bytes by device
timeline    what lives from when to when: steps, resets, copies that come and go
graph       what is rebuilt from what, and what is restored together

The templates only lay out; every figure and word is computed here. Without JavaScript all content
is there; with it, the table can be sorted and filtered.
"""

from statekit_codegen.review_page.page import to_html

__all__ = ["to_html"]
