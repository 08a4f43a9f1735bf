"""Fields of the configuration, described as data: what each may hold, its default, and the global field it inherits."""
