"""Texts from outside are cut, made printable and masked, and headers are noted only if the config allows them."""

import pytest

from sidecar.logs.sanitise import allowed_headers, clean


def test_only_allowed_headers_are_noted() -> None:
    """With no allow-list nothing is noted; names compare without case; the first of duplicates stands."""
    headers = [(b"X-Team", b"a\x1b[31m"), (b"x-team", b"b"), (b"User-Agent", b"c")]

    assert allowed_headers(headers, frozenset()) == {}
    assert allowed_headers(headers, {"x-team"}) == {"header.x-team": "a\ufffd[31m"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 漢", "plain é 漢"),
        ("a\nb\r\x00\x7f\x85", "a\ufffdb\ufffd\ufffd\ufffd\ufffd"),
        ("\x1b[31mred", "\ufffd[31mred"),
        ("\u202eevil\u2066\u200b\ufeff", "\ufffdevil\ufffd\ufffd\ufffd"),
        ("\u2028\u2029", "\ufffd\ufffd"),
        ("bad \udcff", "bad \ufffd"),
        (b"bytes \xff", "bytes \ufffd"),
        ("x" * 256, "x" * 256),
        ("x" * 257, "x" * 255 + "…"),
        ("Bearer abc", "Bearer ***"),
        ("http://u:p@h/", "http://***h/"),
    ],
)
def test_a_text_is_cleaned(text: str | bytes, expected: str) -> None:
    """Control characters, bidi marks, separators and surrogates are replaced; long texts are cut; keys are masked."""
    assert expected == clean(text)
