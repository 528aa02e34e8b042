"""Sources in files: finding records, reading and decoding them."""
