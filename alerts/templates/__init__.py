"""Templates of labels and annotations: the subset of Go's text/template that rule files use."""
