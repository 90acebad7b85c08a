"""How many examples a property draws that needs more of them than others."""

from hypothesis import settings


def examples(most: int) -> int:
    """All of them where each run draws other ones (`.ci/random`), a quarter where every run draws the same ones again."""
    return most // 4 if settings.get_current_profile_name() == "order" else most
