"""The reason for which requests missed their objectives on this pod: evidence, signs, causes, the root of each miss, the incident. Pure."""
