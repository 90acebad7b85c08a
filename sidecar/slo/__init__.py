"""Objectives (threshold and target per lane and prompt length), the decision on each request, the phase of a miss. Pure."""
