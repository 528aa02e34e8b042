"""The origins of items: the shadow of a pipeline delivers origins instead of items."""
