"""The address of an engine: `http://host:port`, or `unix:/path` for a Unix socket, and how each is asked.

Knows the two forms of text; refuses to look at a path or to open it. Over a Unix socket the engine is called `localhost`.
"""

UNIX = "unix:"
"""The beginning of the address of a Unix socket; its absolute path follows."""
LONGEST_PATH_BYTES = 107
"""Linux keeps 108 bytes for the path of a Unix socket, the last of them for the zero byte (unix(7))."""
UNIX_HOST = "localhost"
"""The name of an engine on a Unix socket, for Host and for its URLs: RFC 9110 7.2 asks for one, and a path is none."""


def unix_path(url: str) -> str:
    """The path of its Unix socket, or "" if it listens on TCP."""
    return url.removeprefix(UNIX) if url.startswith(UNIX) else ""


def http_url(url: str) -> str:
    """The URL without a path that its pages are asked under; over a Unix socket the connector knows the way."""
    return f"http://{UNIX_HOST}" if unix_path(url) else url.rstrip("/")
