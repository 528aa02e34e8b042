"""Stages without upstream: where data enter a pipeline."""
