"""The dialects of the APIs that engines serve: most are a row of `field_table.py`, and those of typed events a file each. `apis.py` knows their paths."""
