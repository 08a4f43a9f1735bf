"""Will a changed query restart from its checkpoint? Two shapes, as the agent tells them, are compared.

Called by the command line; all pure. `model` reads a shape, `comparison` lists the checks, each in the
file of what it looks at, and `findings` is what they say. The rules are those of Spark's guide, and of
what Spark really does where the two differ.
"""
