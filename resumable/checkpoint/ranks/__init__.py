"""Several ranks that save one checkpoint together: their parts, runs and conflicts."""
