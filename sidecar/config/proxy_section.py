"""The section `proxy` of a config: the traffic listener, its limits and its budgets, each with the reason for its default.

Keys and reasons as in `schema.py`, which holds the other sections. It refuses to know what a limit of 0 becomes:
`sidecar/budgets/budgets.py` derives those from the machine.
"""

from typing import Annotated, Literal

from sidecar.config.section import Limits, Section
from sidecar.config.values import Address, ListenAddress, Seconds, parse_address


class ProxyConfig(Section):
    """The traffic listener and its limits."""

    listen_address: ListenAddress = "0.0.0.0:8900"
    """The address for clients: the Service's target port."""
    max_in_flight: Annotated[int, Limits(ge=1, le=100_000)] = 1024
    """Requests at once, above which 503 and Retry-After are answered and counted (Envoy's breaker: 1024). An unfinished upload is none yet."""
    max_uploads: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Requests whose body has not come whole; above it the slowest gets 408. 0: as many as requests at once."""
    max_connections: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Open client connections; above it the one that has been idle longest is closed. 0: derived from memory and files (docs/budgets.md)."""
    max_connections_per_peer: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Open connections from one address, above which a further one gets 503. 0: no such share, because an ingress is one address."""
    max_tunnels: Annotated[int, Limits(ge=0, le=1_000_000)] = 0
    """Websockets at once; above it one that is silent for 60 s makes room, or 503 is answered. 0: a quarter of the requests at once."""
    tunnel_idle_timeout_seconds: Seconds = 3600.0
    """A websocket on which no byte has passed for this long is closed (Envoy's TCP proxy: 1 h)."""
    tunnel_total_timeout_seconds: Annotated[float, Limits(gt=0, le=2_592_000)] = 86400.0
    """The longest life of a websocket: a day, so that none outlives its credentials for ever."""
    max_head_bytes: Annotated[int, Limits(ge=1024, le=1 << 20)] = 65536
    """Request line and headers together, above which 431 (Envoy 60 KiB, nginx 4 x 8 KiB)."""
    max_headers: Annotated[int, Limits(ge=8, le=10_000)] = 128
    """Header fields in a request, above which 431 (Envoy 100, HAProxy 101, aiohttp 128)."""
    max_body_bytes: Annotated[int, Limits(ge=1024, le=1 << 40)] = 64 << 20
    """Request body, above which 413. Bodies are streamed, so this bounds uploads and not memory; room for several images."""
    look_in_bytes: Annotated[int, Limits(ge=0, le=16 << 20)] = 1 << 20
    """Bytes of a body that are held to read `model`, `stream` and the like; a longer body passes unread."""
    head_timeout_seconds: Seconds = 75.0
    """A request head must be complete within this time, so that slow headers cannot hold sockets for ever (nginx 60 s)."""
    keep_alive_seconds: Seconds = 75.0
    """An idle client connection is closed after this time (nginx 75 s)."""
    body_gap_timeout_seconds: Seconds = 60.0
    """The longest pause inside an upload (nginx 60 s between reads). upload_min_bytes_per_second may end it sooner: by default an upload of fewer than 4,800 bytes ends 20 s after its head."""
    upload_timeout_seconds: Seconds = 600.0
    """The longest time for a whole request body, pauses of the engine not counted: 64 MiB at 0.9 Mbit/s."""
    upload_min_bytes_per_second: Annotated[int, Limits(ge=0, le=1 << 30)] = 240
    """Mean rate below which an upload older than 20 s is answered 408 (Kestrel 240, Apache's mod_reqtimeout 500); 0: no such floor."""
    client_write_timeout_seconds: Seconds = 60.0
    """A client that takes no byte for this long is disconnected (nginx send_timeout 60 s)."""
    client_min_bytes_per_second: Annotated[int, Limits(ge=0, le=1 << 30)] = 240
    """Mean rate below which a client is disconnected that has left bytes waiting here for client_write_timeout_seconds (Kestrel 240); 0: no such floor."""
    client_buffer_bytes: Annotated[int, Limits(ge=4096, le=16 << 20)] = 65536
    """High-water mark per stream, above which reading from the engine pauses (Envoy's edge advice 32 KiB)."""
    max_event_bytes: Annotated[int, Limits(ge=1024, le=64 << 20)] = 256 << 10
    """One server-sent event. Beyond it the event is not observed, and its bytes still flow (Envoy's sse filter: 8 KiB)."""
    via: Literal["off", "on"] = "off"
    """on adds `Via: 1.1 llm-phase-sidecar` to requests to the engine, as RFC 9110 7.6.3 asks; off adds no header."""
    include_usage: Literal["auto", "never"] = "auto"
    """auto asks for the usage chunk, of engines proven to accept that, and cuts it out again; with never, bodies stay untouched."""

    @property
    def address(self) -> Address:
        return parse_address(self.listen_address)
