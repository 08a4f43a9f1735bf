"""Templates as Go's text/template: annotations of rule files (`expansion`) and texts of messages (`library`)."""
