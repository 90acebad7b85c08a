"""The check of the stories: each mistake that a rule can have must make some story end differently."""
