"""The engine's words that come by other ways than its answers and its spans: files that are read, records and sums that are fetched."""
