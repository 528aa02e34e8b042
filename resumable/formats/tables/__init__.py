"""Rows of Parquet and Arrow files: what both formats share, and what pyarrow reads for each."""
