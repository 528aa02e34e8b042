"""Report the progress of a run to monitoring tools."""
