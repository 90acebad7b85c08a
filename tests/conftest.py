"""What holds for every test: Hypothesis without deadlines, because tests promise order and values, never wall time."""

from hypothesis import settings


settings.register_profile("order", deadline=None)
settings.load_profile("order")
