"""PromQL syntax: tokens, tree, parser, static checks."""
