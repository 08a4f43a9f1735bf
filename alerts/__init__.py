"""The rule engine as a pure library: labels and matchers so far; rules build on them.

Called by the server; calls nothing of ours and does no I/O.
"""
