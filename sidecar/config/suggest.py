"""The nearest allowed word to a mistyped one: `; did you mean "lane"?`, or nothing where nothing is near."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A clause to append to an error, or the empty string. `word` is only compared, never repeated."""
    near = difflib.get_close_matches(word[:100], list(allowed), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
