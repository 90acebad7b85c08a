"""The Dockerfile's commands make an environment that is small, and that serves as a user without rights on a read-only root.

`docker build` is not run: no Docker daemon is needed, and the base image is none of ours. The commands run in virtual environments with
this machine's Python and compiler (tests/support/dockerfile.py).
"""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from sidecar.commands.demo.processes import LOOPBACK, free_ports, running
from tests.commands.export.written import texts_below
from tests.support.dockerfile import CHECKOUT, Built, interpreters, run_steps, stages
from tests.support.plain_engine import plain_answer, plain_engine
from tests.support.tools import missing, need_tool


MOST_BYTES_WITH_GRPC = 75e6
MOST_BYTES = 55e6
STREAM = (CHECKOUT / "tests" / "streams" / "composed-vllm-chat-keep-alive.sse").read_bytes()
READ_ONLY = 'mount -o remount,bind,ro /; while read -r _ place _; do mount -o remount,bind,ro "$place" || :; done </proc/self/mounts'
TRIED = "for folder in / /tmp /var/tmp /dev/shm /run; do touch $folder/written && echo $folder; done; exit 0"
"""Prints each folder into which a file could be written."""


@pytest.fixture(scope="module")
def image() -> Iterator[Built]:
    """The environment that the commands made. Its folder can be read by every user, which pytest's own cannot."""
    python = next((one for one in interpreters() if usable(one)), None)
    if python is None:
        missing("no Python on this machine can make an environment that every user can read (python3-venv)")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield run_steps(python, folder)


def usable(python: str) -> bool:
    """Whether it has venv and pip, and whether the image's user can run it: not below /root, where only root may look."""
    user = [str(need_tool("setpriv")), "--reuid=65532", "--regid=65532", "--clear-groups"] if os.geteuid() == 0 else []
    asked = [*user, python, "-c", "import ensurepip, venv"]
    return subprocess.run(asked, capture_output=True, check=False, timeout=60, cwd="/").returncode == 0


@pytest.mark.live
@pytest.mark.timeout(1200)
def test_the_commands_add_at_most_75_mb_with_grpc_and_55_without(image: Built) -> None:
    """Unpacked, byte code included. pip has gone in the last step."""
    added = {"with gRPC": image.bytes_of(), "without": image.bytes_of(without=r"/site-packages/grpc(io-[^/]+)?/")}

    assert not (image.environment / "bin" / "pip").exists()
    assert added["without"] < added["with gRPC"] - 5e6, added
    assert added["with gRPC"] <= MOST_BYTES_WITH_GRPC, added
    assert added["without"] <= MOST_BYTES, added


@pytest.mark.live
@pytest.mark.timeout(1200)
def test_it_exports_the_files_of_the_repository(image: Built, tmp_path: Path) -> None:
    """With the image's own command, in a folder outside of the checkout: rules, routes, dashboards and manifests travel with it."""
    variables = {"PATH": f"{image.environment / 'bin'}:/usr/bin:/bin"}
    command = [str(image.environment / "bin/sidecar"), "export", "all", "--out=."]
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    texts = texts_below(tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert {path.partition("/")[0] for path in texts} == {"alert_rules", "deploy", "grafana"}
    assert texts == {path: (CHECKOUT / path).read_text() for path in texts}


@pytest.mark.live
@pytest.mark.timeout(1200)
def test_it_serves_a_stream_as_the_images_user_on_a_read_only_root(image: Built) -> None:
    """Every mount is read-only, there is no home, and the bytes of a stream come through."""
    if os.geteuid() != 0:
        missing("only root can make a mount read-only and become the image's user")
    *_, last = stages()
    uid, gid = last.all("USER")[-1].split(":")
    environment = [f"PATH={image.environment / 'bin'}:/usr/bin:/bin", "HOME=/nonexistent", *last.all("ENV")[-1].split()]
    (entry,) = last.all("ENTRYPOINT")

    def inside(*command: str) -> list[str]:
        user = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "env", "-i"]
        then = f'{READ_ONLY} 2>&-; cd /; exec "$@"'
        return ["unshare", "--mount", "--propagation=private", "sh", "-euc", then, "sh", *user, *environment, *command]

    tried = subprocess.run(inside("sh", "-c", TRIED), capture_output=True, text=True, check=False, timeout=60)
    if tried.returncode != 0 and "unshare" in tried.stderr:
        missing(f"no mount namespace can be made here: {tried.stderr.strip()}")
    assert (tried.returncode, tried.stdout) == (0, ""), tried.stderr

    owners: list[int] = []

    async def served() -> tuple[int, bytes]:
        traffic, admin = free_ports(2)
        async with plain_engine(answer) as engine_url:
            flags = [f"--engine.url={engine_url}", f"--proxy.listen-address={LOOPBACK}:{traffic}",
                     f"--web.listen-address={LOOPBACK}:{admin}"]  # fmt: skip
            command = inside(*json.loads(entry), *flags)
            async with (
                running("the image's sidecar", command, ready_url=f"http://{LOOPBACK}:{admin}/-/ready") as process,
                aiohttp.ClientSession() as client,
            ):
                owners.append(owner_of(process.pid))
                asked = {"model": "plain", "stream": True, "stream_options": {"include_usage": True}, "messages": []}
                async with client.post(f"http://{LOOPBACK}:{traffic}/v1/chat/completions", json=asked) as got:
                    return got.status, await got.read()

    assert asyncio.run(served()) == (200, STREAM)
    assert owners == [int(uid)]


def owner_of(process_id: int) -> int:
    return Path(f"/proc/{process_id}").stat().st_uid


def answer(request: bytes) -> bytes:
    """The stream, for a chat; else what a vLLM says about itself."""
    if not request.startswith(b"POST"):
        return plain_answer(request)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(STREAM), STREAM)
