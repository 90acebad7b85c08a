"""Reports that come neither in answers nor in spans: files that are read, records and sums that are fetched."""
