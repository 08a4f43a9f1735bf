"""Comparison of two query shapes: whether a changed query can restart from its checkpoint. Pure.

Called by `preflight`, the API and the checkpoint service. `model` parses a shape, `comparison` lists the
checks, `findings` holds their results. The rules follow Spark's guide, and Spark's observed behavior where
the two differ.
"""
