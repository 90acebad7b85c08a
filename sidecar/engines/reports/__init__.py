"""Machinery for reports that come by other ways than answers and spans: files that are read, records and sums that are fetched."""
