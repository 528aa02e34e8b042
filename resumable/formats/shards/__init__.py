"""Datasets of shards that other loaders have written, with an index of the shards in JSON."""
