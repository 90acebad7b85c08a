"""The check of the scenarios: each mistake that a rule can have must make some scenario end differently."""
