"""Parts of the Fleet page."""
