"""Programs as people write them in NumPy, each compiled by one decorator; see README.md."""
