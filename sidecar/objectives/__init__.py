"""Objectives (threshold and target per lane and prompt length), the decision on each request, votes, whether they burn. Pure."""
