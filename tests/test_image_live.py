"""The image of the release: it is small, and serves as its user under the security settings of the pod, as far as a chroot can show them.

`make release` builds it from the Dockerfile, on a base that stands in for the public one. Its root is unpacked, mounted read-only, and
entered by a process with the image's user, no right of root, and the image's own variables and entrypoint. A chroot shows neither the
seccomp profile of a container's runtime nor the limits of a pod.
"""

import asyncio
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import aiohttp
import pytest
import yaml
from packaging.utils import canonicalize_name

from sidecar.commands.demo.processes import LOOPBACK, free_ports, running
from tests.commands.export.written import texts_below
from tests.support.artefacts import artefact
from tests.support.dockerfile import CHECKOUT
from tests.support.plain_engine import plain_answer, plain_engine
from tests.support.tools import missing, need_tool
from tools.image import BASE_LAYERS
from tools.licences import installed
from tools.oci_archive import added, config_of, unpack


pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]

MOST_BYTES_WITH_GRPC = 80e6
MOST_BYTES = 60e6
STREAM = (CHECKOUT / "tests" / "streams" / "composed-vllm-chat-keep-alive.sse").read_bytes()
NOT_SHOWN = {"seccompProfile"}
OF_THE_BASE = {"setuptools", "wheel"}
"""Packages that a base has for its own Python, and that no SBOM of ours has to list. pip is removed."""
IN_THE_POD = """
root=$1 uid=$2 gid=$3; shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev/null "$root/dev/null"
[ -z "$OUT" ] || mount --bind "$OUT" "$root/mnt"
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid="$uid" --regid="$gid" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    env -i "$@"
"""
TRIED = "for folder in / /tmp /var/tmp /dev/shm /run; do touch $folder/written && echo $folder; done; exit 0"
"""Prints each folder into which a file could be written."""


@dataclass(frozen=True, slots=True)
class Image:
    """The archive, its configuration and its unpacked root."""

    archive: Path
    config: dict[str, Any]
    root: Path

    def inside(self, *command: str, out: Path | None = None) -> list[str]:
        """This command in the image as a pod would run it; `out`: a folder that it may write to, as /mnt."""
        uid, gid = self.config["User"].split(":")
        own = ["unshare", "--mount", "--propagation=private", "env", f"OUT={out or ''}", "sh", "-euc", IN_THE_POD]
        return [*own, "sh", str(self.root), uid, gid, *self.config["Env"], *command]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Every user may enter its folder, which pytest's own do not allow."""
    archive = artefact("*-VERSION.oci.tar")
    if os.geteuid() != 0:
        missing("only root can unpack an image with its owners, mount it read-only and become its user")
    need_tool("setpriv")
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        unpack(archive, Path(made) / "root")
        (Path(made) / "root/dev/null").touch()
        yield Image(archive, config_of(archive)["config"], Path(made) / "root")


def security_context() -> dict[str, Any]:
    (container,) = yaml.safe_load((CHECKOUT / "deploy/base/pod.yaml").read_text())["spec"]["template"]["spec"][
        "initContainers"
    ]
    context: dict[str, Any] = container["securityContext"]
    return context


def test_the_dockerfile_adds_at_most_80_mb_with_grpc_and_60_without(image: Image) -> None:
    """Unpacked, byte code included. pip has gone in the last step."""
    own = added(image.archive, BASE_LAYERS)
    grpc = sum(each.size for path, each in own.items() if re.search(r"/site-packages/grpc(io-[^/]+)?/", path))
    whole = sum(each.size for each in own.values())

    assert [path for path in own if re.search(r"/bin/pip", path)] == []
    assert not (image.root / "usr/local/bin/pip").exists()
    assert grpc > 5e6
    assert (whole <= MOST_BYTES_WITH_GRPC, whole - grpc <= MOST_BYTES) == (True, True), (whole, grpc)


def test_it_holds_the_packages_of_the_sbom_and_the_sources_of_the_wheel(image: Image) -> None:
    """Each source has its byte code beside it, which a read-only root could not get later."""
    (site,) = image.root.glob("usr/local/lib/python3.*/site-packages")
    told = json.loads(artefact("*-VERSION.cdx.json").read_text())
    sbom = {
        (canonicalize_name(each["name"]), each["version"])
        for each in [*told["components"], told["metadata"]["component"]]
    }
    found = {(name, each.version) for name, each in installed(site).items()}
    with ZipFile(artefact("*-VERSION-*manylinux*.whl")) as wheel:
        sources = {
            name: wheel.read(name) for name in wheel.namelist() if name.startswith("sidecar/") and name.endswith(".py")
        }

    assert {name for name, _ in found ^ sbom} <= OF_THE_BASE
    assert len(sources) > 300
    assert [name for name, content in sources.items() if (site / name).read_bytes() != content] == []
    assert [
        name for name in sources if not any((site / name).parent.glob(f"__pycache__/{Path(name).stem}.*.pyc"))
    ] == []


def test_it_exports_the_files_of_the_repository(image: Image, tmp_path: Path) -> None:
    """With the image's own command, as its user: rules, routes, dashboards and manifests travel with it."""
    with tempfile.TemporaryDirectory() as made:
        os.chown(made, *map(int, image.config["User"].split(":")))
        command = image.inside("sidecar", "export", "all", "--out=/mnt/all", out=Path(made))
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        texts = texts_below(Path(made) / "all")

    assert (done.returncode, done.stderr) == (0, "")
    assert {path.partition("/")[0] for path in texts} == {"alert_rules", "deploy", "grafana"}
    assert texts == {path: (CHECKOUT / path).read_text() for path in texts}


def test_it_serves_a_stream_under_the_security_settings_of_the_pod(image: Image) -> None:
    """Both probes answer, and the bytes of a stream come through."""
    context = security_context()
    tried = subprocess.run(image.inside("sh", "-c", TRIED), capture_output=True, text=True, check=False, timeout=60)
    if tried.returncode != 0 and "unshare" in tried.stderr:
        missing(f"no mount namespace can be made here: {tried.stderr.strip()}")
    status: dict[str, str] = {}

    async def served() -> tuple[list[int], bytes]:
        traffic, admin = free_ports(2)
        web = f"http://{LOOPBACK}:{admin}"
        async with plain_engine(answer) as engine_url:
            flags = [f"--engine.url={engine_url}", f"--proxy.listen-address={LOOPBACK}:{traffic}",
                     f"--web.listen-address={LOOPBACK}:{admin}"]  # fmt: skip
            command = image.inside(*image.config["Entrypoint"], *flags)
            async with (
                running("the image's sidecar", command, ready_url=f"{web}/-/ready") as process,
                aiohttp.ClientSession() as client,
            ):
                status.update(rights_of(process.pid))
                asked = {"model": "plain", "stream": True, "stream_options": {"include_usage": True}, "messages": []}
                codes = []
                for probe in ("healthy", "ready"):
                    async with client.get(f"{web}/-/{probe}") as got:
                        codes.append(got.status)
                async with client.post(f"http://{LOOPBACK}:{traffic}/v1/chat/completions", json=asked) as got:
                    return [*codes, got.status], await got.read()

    assert (tried.returncode, tried.stdout) == (0, ""), tried.stderr
    assert context["readOnlyRootFilesystem"]
    assert asyncio.run(served()) == ([200, 200, 200], STREAM)
    assert {name: status[name].split()[0] for name in ("Uid", "NoNewPrivs", "CapEff", "CapPrm", "CapBnd")} == {
        "Uid": str(context["runAsUser"]),
        "NoNewPrivs": str(int(not context["allowPrivilegeEscalation"])),
        **dict.fromkeys(
            ("CapEff", "CapPrm", "CapBnd"), f"{0 if context['capabilities'] == {'drop': ['ALL']} else -1:016x}"
        ),
    }
    assert context["runAsNonRoot"]
    assert (
        context.keys()
        - {
            *("runAsNonRoot", "runAsUser", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"),
        }
        == NOT_SHOWN
    )


def rights_of(process_id: int) -> dict[str, str]:
    """User, capabilities and the rest of /proc/PID/status."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return {name: value for name, found, value in (line.partition(":\t") for line in lines) if found}


def answer(request: bytes) -> bytes:
    """The stream, for a chat; else what a vLLM says about itself."""
    if not request.startswith(b"POST"):
        return plain_answer(request)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(STREAM), STREAM)
