"""Forms as clients write them (`multipart/form-data`)."""

FILE = bytes(range(256)) * 40


def form(*parts: tuple[str, bytes], boundary: bytes = b"xYz") -> bytes:
    """A body as httpx and curl write it; a part named `file` is a file."""
    out = b""
    for name, value in parts:
        head = f'Content-Disposition: form-data; name="{name}"' + (
            '; filename="a.wav"\r\nContent-Type: audio/wav' if name == "file" else ""
        )
        out += b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, head.encode(), value)
    return out + b"--%b--\r\n" % boundary
