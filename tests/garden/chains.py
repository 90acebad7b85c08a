"""nginx and HAProxy in front of the sidecar, as operators put them there: connections to it are kept, nothing is buffered.

Both are told to be as permissive as they can, so that as much as possible of an attack reaches the sidecar.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.garden.garden_rounds import Hop
from tests.support.ports import free_port
from tests.support.tools import need_tool


NGINX = """\
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    upstream sidecar {{ server 127.0.0.1:{to}; keepalive 64; }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        ignore_invalid_headers off; underscores_in_headers on; large_client_header_buffers 8 64k;
        location / {{
            proxy_pass http://sidecar;
            proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_request_buffering off; proxy_buffering off;
        }}
    }}
}}
"""
HAPROXY = """\
global
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    option accept-invalid-http-request
    option accept-invalid-http-response
frontend clients
    bind 127.0.0.1:{port} backlog 1024
    default_backend sidecar
backend sidecar
    http-reuse always
    server sidecar 127.0.0.1:{to}
"""
CHAINS = ("direct", "nginx", "haproxy")
NOT_FOR = {"nginx": ("1xx",)}
"""nginx 1.22 takes every 1xx for the final answer (mended in 1.29); RFC 9110 15.2 has the sidecar pass them on."""
LOOKED_AGAIN_SECONDS = 0.05


@contextmanager
def hop_of(chain: str, sidecar_port: int, folder: Path) -> Iterator[Hop]:
    """The address of a chain's first hop. A missing program skips the test, or fails it in CI."""
    if chain == "direct":
        yield Hop("direct", "127.0.0.1", sidecar_port, strict=True)
        return
    program = need_tool(chain)
    port = free_port()
    config = folder / f"{chain}.conf"
    config.write_text((NGINX if chain == "nginx" else HAPROXY).format(folder=folder, port=port, to=sidecar_port))
    flags = ["-p", str(folder), "-c", str(config)] if chain == "nginx" else ["-db", "-f", str(config)]
    process = subprocess.Popen([program, *flags], stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_listens(process, port)
        yield Hop(chain, "127.0.0.1", port)
    finally:
        process.kill()
        process.wait(timeout=10)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    """The program says it in no other way than by taking a connection. Raises RuntimeError if it has ended."""
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=LOOKED_AGAIN_SECONDS)
    raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
