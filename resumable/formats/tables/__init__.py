"""Rows of Parquet, Arrow and Lance: the shared base, and reading each format by its package."""
