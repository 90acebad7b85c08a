"""nginx as a peer that measures nothing: its configuration, which relays a stream at once, a running one, and a process pinned to a core."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


NGINX_CONFIG = """\
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000; client_max_body_size 0;
  client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 512; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A running nginx: its port, and its worker's process."""

    port: int
    pid: int


@contextmanager
def nginx(engine_port: int, folder: Path) -> Iterator[Peer | None]:
    """A running nginx without buffering, or None if nginx is not installed."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=folder, engine=engine_port, port=port))
    master = subprocess.Popen([program, "-c", str(config), "-p", str(folder)], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        children = Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split()
        yield Peer(port, int(children[0])) if children else None
    finally:
        master.terminate()
        master.wait(timeout=10)


def pin(pid: int, core: int) -> None:
    """Pin all threads of a process to one core, if this machine has that core."""
    cores = sorted(os.sched_getaffinity(0))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {cores[core % len(cores)]})
