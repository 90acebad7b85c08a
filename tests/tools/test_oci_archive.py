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

from tools.oci_archive import OciArchiveError, config_of, differences, entries_of, main, unpack


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


BASE: Layer = [
    other("./", tarfile.DIRTYPE),
    other("etc", tarfile.DIRTYPE),
    file("etc/old", b"old"),
    file("etc/kept", b"kept"),
    other("opt", tarfile.DIRTYPE),
    file("opt/one", b"1"),
    other("dev", tarfile.DIRTYPE),
    other("dev/null", tarfile.CHRTYPE),
    other("lib", tarfile.SYMTYPE, "usr/lib"),
]
CHANGES: Layer = [
    file("etc/.wh.old"),
    file("etc/new", b"new", 0o755),
    other("etc/twin", tarfile.LNKTYPE, "etc/new"),
    file("opt/two", b"2"),
    file("opt/.wh..wh..opq"),
    file("lib", b"now a file"),
]
"""Deletes a file and all that a folder had, also behind what it adds there, and puts a file in the place of a link."""


def test_layers_are_applied_with_their_deletions_to_a_list_and_to_a_folder(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "image.tar", BASE, CHANGES)
    found = entries_of(archive)
    unpack(archive, tmp_path / "root")
    files = {
        str(each.relative_to(tmp_path / "root")): each.read_bytes()
        for each in (tmp_path / "root").rglob("*")
        if each.is_file()
    }

    assert files == {"etc/kept": b"kept", "etc/new": b"new", "etc/twin": b"new", "opt/two": b"2", "lib": b"now a file"}
    assert {path for path, entry in found.items() if entry.kind == "file"} == set(files)
    assert {path: entry.kind for path, entry in found.items() if entry.kind != "file"} == {
        **dict.fromkeys(("etc", "opt", "dev"), "folder"),
        "dev/null": "device",
    }
    assert (found["etc/twin"], found["etc/new"].mode, found["etc/new"].size) == (found["etc/new"], 0o755, 3)
    assert config_of(archive)["config"] == {"User": "65532"}


def test_a_folder_that_becomes_a_file_takes_what_was_below_it_along(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "image.tar", BASE, [file("opt", b"no folder")])
    unpack(archive, tmp_path / "root")

    assert {path for path in entries_of(archive) if path.startswith("opt")} == {"opt"}
    assert (tmp_path / "root/opt").read_bytes() == b"no folder"


def test_other_layers_and_other_times_are_no_difference(tmp_path: Path) -> None:
    one = archive_of(tmp_path / "one.tar", [file("a", b"x"), file("b", b"y")])
    later = {**CONFIG, "created": "2027-01-01T00:00:00Z", "history": [{}]}
    two = archive_of(
        tmp_path / "two.tar", [file("a", b"z")], [file("./b", b"y"), file("a", b"x", mtime=9)], config=later
    )

    assert differences(one, two) == []


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


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(b"no tar"), "image.tar: "),
        (lambda path: path.write_bytes(tar_of([file("a")])), "there is no file index.json"),
        (lambda path: path.write_bytes(tar_of([file("index.json", b"{")])), "index.json is no JSON"),
        (lambda path: path.write_bytes(tar_of([file("index.json", b"[]")])), "index.json is no JSON object"),
        (lambda path: path.write_bytes(tar_of([file("index.json", b"{}")])), "lacks 'manifests'"),
        (lambda path: archive_of(path, BASE, images=2), "names 2 images, and 1 is read"),
        (
            lambda path: archive_of(path, BASE, spoil=lambda blob: blob[:-1] + b"!"),
            "has other bytes than its digest says",
        ),
        (lambda path: archive_of(path, [other("a", tarfile.LNKTYPE, "nothing")]), "lacks 'nothing'"),
    ],
)
def test_what_is_no_whole_archive_of_one_image_is_refused_with_its_place(
    make: Callable[[Path], object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "image.tar"
    make(path)

    with pytest.raises(OciArchiveError, match=said) as told:
        entries_of(path)
    assert str(told.value).startswith(str(path))
    assert (_exit_code(path, path), said in capsys.readouterr().err) == (2, True)


def test_an_archive_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    """The last bytes of a tar file are padding, which nothing misses."""
    whole = archive_of(tmp_path / "whole.tar", BASE, CHANGES).read_bytes()
    needed = len(whole.rstrip(b"\0"))
    for end in range(0, needed, 97):
        cut = tmp_path / "cut.tar"
        cut.write_bytes(whole[:end])
        with pytest.raises(OciArchiveError):
            entries_of(cut)
