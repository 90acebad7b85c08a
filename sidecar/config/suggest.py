"""Suggests the allowed word nearest to a mistyped one: `; did you mean "lane"?`."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, allowed: Iterable[str], prefix: str = "") -> str:
    """A clause to append to an error; empty if no allowed word is near. `word` is compared and never repeated: it may be a secret.

    `prefix`: what all words have in common; it is shown, and not compared.
    """
    near = difflib.get_close_matches(word[:100], list(allowed), n=1)
    return f'; did you mean "{prefix}{near[0]}"?' if near else ""
