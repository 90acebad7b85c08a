"""The dialects of the APIs that engines serve, one file each. `sidecar/timeline/apis.py` knows the paths on which they are spoken."""
