"""Two images are compared by what a container would see, whatever their layers, their times and their compression."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tools.oci_archive import differences, main


Layer = Sequence[tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]]
CONFIG = {"architecture": "amd64", "os": "linux", "created": "2026-01-01T00:00:00Z", "config": {"User": "65532"}}


def file(name: str, content: bytes = b"", mode: int = 0o644, mtime: int = 1) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(content), mode, mtime
    info.uid, info.gid = os.geteuid(), os.getegid()  # only root may give a file away
    return info, content


def other(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o755
    info.uid, info.gid = os.geteuid(), os.getegid()
    return info


def tar_of(members: Layer) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for each in members:
            info, content = each if isinstance(each, tuple) else (each, b"")
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def archive_of(
    path: Path,
    *layers: Layer,
    config: Mapping[str, Any] = CONFIG,
    images: int = 1,
    spoil: Callable[[bytes], bytes] = lambda blob: blob,
) -> Path:
    """An OCI archive; `spoil` changes the bytes of the first layer once its digest is taken."""
    blobs: dict[str, bytes] = {}

    def stored(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    packed = [gzip.compress(tar_of(layer), mtime=0) for layer in layers]
    stored_layers = [stored(each) for each in packed]
    manifest = stored(json.dumps({"config": stored(json.dumps(config).encode()), "layers": stored_layers}).encode())
    blobs[f"blobs/{stored_layers[0]['digest'].replace(':', '/')}"] = spoil(packed[0])
    index = json.dumps({"schemaVersion": 2, "manifests": [manifest] * images}).encode()
    path.write_bytes(tar_of([file(name, content) for name, content in {**blobs, "index.json": index}.items()]))
    return path


def test_each_difference_is_a_line_that_says_in_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capable, (plain, _) = tarfile.TarInfo("capable"), file("capable")
    capable.pax_headers = {"SCHILY.xattr.security.capability": "x"}
    capable.uid, capable.gid = plain.uid, plain.gid
    first: Layer = [file("a", b"1"), file("b"), other("c", tarfile.SYMTYPE, "a"), file("d"), file("capable")]
    second: Layer = [
        file("a", b"2", 0o600),
        other("b", tarfile.DIRTYPE),
        other("c", tarfile.SYMTYPE, "b"),
        file("e"),
        capable,
    ]
    one = archive_of(tmp_path / "one.tar", first)
    two = archive_of(tmp_path / "two.tar", second, config={**CONFIG, "config": {"User": "0"}})
    expected = [
        "/a: mode, content",
        "/b: kind, mode, content",
        "/c: content",
        "/capable: attributes",
        "/d: only in the first",
        "/e: only in the second",
        "configuration: config",
    ]

    assert differences(one, two) == expected
    assert _exit_code(one, two) == 1
    assert capsys.readouterr().out.splitlines() == expected
    assert _exit_code(one, one) == 0


def _exit_code(*paths: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["oci_archive", *map(str, paths)])
        return main()
