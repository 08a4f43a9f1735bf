"""Write the rows of many events at once: what a commit loads, keeps in memory and saves."""
