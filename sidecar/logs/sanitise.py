"""Makes a text safe for a log line: short, printable, on one line, without anything that looks like a secret.

Pure. Every string that a client or an engine can influence is cleaned. Secrets are kept out of logs elsewhere; masking is a
second line of defence, for those that get in all the same.
"""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from sidecar.config.values import MASK


LIMIT = 256
_SECRET = re.compile(r"(?i)\b(bearer|basic)\s+\S+|\b(?:sk|pk|hf|gsk|xai|nvapi)[-_][A-Za-z0-9_-]{4,}|(//)[^/@\s]*@")
_PART_OF_A_SECRET = re.compile(r"[ @_-]")
"""Each match of `_SECRET` has one of these; most paths and names have none."""


def clean(text: str | bytes, limit: int = LIMIT) -> str:
    """The text for one line: at most `limit` characters (the last an ellipsis if cut), all printable, key-like parts masked.

    Replaced by U+FFFD: control characters (C0, C1), bidi and other format marks, line and paragraph separators,
    surrogates, unassigned and private characters. Never raises; the result always encodes as UTF-8.
    """
    # Cut first (bytes before they are decoded), so that a text of megabytes costs no more than a line. The margin lets a key
    # that straddles the cut still be recognised.
    head = text[: 4 * limit + 256].decode("utf-8", "replace") if isinstance(text, bytes) else text[: limit + 256]
    if not (head.isascii() and head.isprintable()):
        head = "".join(character if character.isprintable() else "\ufffd" for character in head)
    if _PART_OF_A_SECRET.search(head):
        head = _SECRET.sub(lambda found: f"{found[1] or found[2] or ''}{' ' if found[1] else ''}{MASK}", head)
    return head if len(head) <= limit else head[: limit - 1] + "…"


def clean_path(target: str | bytes, limit: int = LIMIT) -> str:
    """The request target, cleaned, without its query or fragment, which may carry keys (`?key=`)."""
    if isinstance(target, bytes):
        return clean(target.partition(b"?")[0].partition(b"#")[0], limit)
    return clean(target.partition("?")[0].partition("#")[0], limit)


SHORT_PATH_BYTES = 64
"""A target up to this length is cleaned once, and then known: nearly all requests have one of a few."""
clean_short_path = lru_cache(maxsize=256)(clean_path)


def allowed_headers(headers: Iterable[tuple[bytes, bytes]], allowed: Collection[str]) -> dict[str, str]:
    """The headers whose lower-case name is allowed, as notes for a log line: `header.x-team` to its cleaned value.

    Of duplicates the first is taken. With nothing allowed, no header is read.
    """
    notes: dict[str, str] = {}
    if allowed:
        for name, value in headers:
            lower = name.lower().decode("latin-1")
            if lower in allowed:
                notes.setdefault(f"header.{lower}", clean(value))
    return notes
