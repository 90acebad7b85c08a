"""Single values of a config: which texts are addresses and engine URLs, and which are refused."""

import pytest

from sidecar.config.values import Address, parse_address, parse_engine_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0:8900", Address("0.0.0.0", 8900)),
        (":0", Address("", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("my_host.local:65535", Address("my_host.local", 65535)),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    """Names, IPv4, bracketed IPv6, and an empty host for every interface."""
    assert expected == parse_address(text)


@pytest.mark.parametrize(
    "text", ["", "8900", "host", "host:", "host:65536", "h:-1", "::1:80", "[h]:1", "a b:1", "h:\uff11"]
)
def test_what_is_no_address(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="has"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://engine", Address("engine", 80)),
        ("http://[::1]:8000/", Address("::1", 8000)),
        ("http://127.0.0.1:8000", Address("127.0.0.1", 8000)),
    ],
)
def test_engine_urls(text: str, expected: Address) -> None:
    """A host, a port (default 80), and at most the root path."""
    assert expected == parse_engine_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8000",
        "https://a",
        "http://",
        "http://a:0",
        "http://u@a",
        "http://a/v1",
        "http://a?x",
        "http://a/#f",
        "http://[x]",
    ],
)
def test_what_is_no_engine_url(text: str) -> None:
    """Any other text is refused, with the reason."""
    with pytest.raises(ValueError, match=r"\w"):
        parse_engine_url(text)
