"""The Spark session of a pipeline job, and what its Python workers need."""
