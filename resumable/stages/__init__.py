"""Stages with upstreams, an operation per module."""
