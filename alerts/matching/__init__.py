"""Label sets, matchers and regular expressions."""
