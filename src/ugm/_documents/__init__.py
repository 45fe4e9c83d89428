"""Texts in YAML and JSON as plain data, with the line and column of every value.

`ugm._documents.loader` reads YAML, and `ugm._documents.located` reads YAML or JSON, whichever a text is. Both know
nothing of queues, limits and trees. The schemas of the documents are in `ugm.config` and `ugm.quotatree`.
"""
