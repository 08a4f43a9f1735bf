"""The checks of the judge, by subject: each a short function from a `Question` to findings.

`controlplane.checkpoints.analyzer` has the one table that lists them all.
"""
