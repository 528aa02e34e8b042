"""Where the records of local files are: found once, kept in caches, checked before use."""
