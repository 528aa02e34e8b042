"""Datasets of shards written by other loaders, with an index in JSON."""
