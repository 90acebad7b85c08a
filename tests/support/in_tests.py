"""How much the tests play of what a bench plays longer by hand. The promise sheet states both (tools/promises_page.py)."""

DRAINS_IN_TESTS = 2
POSTS_IN_TESTS = 2000
RESTART_IN_TESTS_SECONDS = 0.05
INVENTIONS = 10_000
"""New values of each kind: in requests for inference, and in paths of other requests."""
