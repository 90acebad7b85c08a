"""What of a text may stand in a log line: short, on one line, without tricks, and without secrets.

Pure. The cleaning is for every string that a client or an engine can influence; masking is a belt for secrets that reach a
log by a way nobody thought of, never the reason why they are not logged.
"""

import re
from collections.abc import Collection, Iterable


LIMIT = 256
_SECRET = re.compile(r"(?i)\b(bearer|basic)\s+\S+|\b(?:sk|pk|hf|gsk|xai|nvapi)[-_][A-Za-z0-9_-]{4,}|(//)[^/@\s]*@")
MASK = "***"


def clean(text: str | bytes, limit: int = LIMIT) -> str:
    """A text for one line: at most `limit` characters (then an ellipsis), each printable, what looks like a key masked.

    Replaced by U+FFFD: control characters (C0, C1), bidi and other format marks, line and paragraph separators,
    surrogates, unassigned and private characters. Never raises; the result always encodes as UTF-8.
    """
    # Cut before anything is looked at (and bytes before they are decoded), so that a giant costs no more than a line; the
    # margin lets a key that straddles the cut still be recognised.
    head = text[: 4 * limit + 256].decode("utf-8", "replace") if isinstance(text, bytes) else text[: limit + 256]
    if not (head.isascii() and head.isprintable()):
        head = "".join(character if character.isprintable() else "\ufffd" for character in head)
    head = _SECRET.sub(lambda found: f"{found[1] or found[2] or ''}{' ' if found[1] else ''}{MASK}", head)
    return head if len(head) <= limit else head[: limit - 1] + "…"


def clean_path(target: str | bytes, limit: int = LIMIT) -> str:
    """A request target without its query or fragment, which may carry keys (`?key=`)."""
    if isinstance(target, bytes):
        return clean(target.partition(b"?")[0].partition(b"#")[0], limit)
    return clean(target.partition("?")[0].partition("#")[0], limit)


def allowed_headers(headers: Iterable[tuple[bytes, bytes]], allowed: Collection[str]) -> dict[str, str]:
    """The headers whose lower-case name is allowed, as notes for a log line: `header.x-team` to its cleaned value.

    The first of duplicates stands. Nothing is looked at where nothing is allowed.
    """
    notes: dict[str, str] = {}
    if allowed:
        for name, value in headers:
            lower = name.lower().decode("latin-1")
            if lower in allowed:
                notes.setdefault(f"header.{lower}", clean(value))
    return notes
