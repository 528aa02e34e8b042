"""Where items came from: the shadow of a pipeline, which delivers origins in the place of items."""
