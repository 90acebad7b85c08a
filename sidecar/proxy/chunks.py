"""How a chunk of a body is written (RFC 9112 7.1), by the sidecar and by most engines."""

CHUNK = b"%x\r\n%b\r\n"
"""One chunk: the number of its bytes, and the bytes."""
LAST_CHUNK = b"0\r\n\r\n"
SIZE_LINE_BYTES = 6
"""The longest first line of a chunk below 64 KiB."""
