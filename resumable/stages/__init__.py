"""Stages with upstreams, one operation a module."""
