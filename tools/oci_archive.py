"""`python -m tools.oci_archive FIRST SECOND`: the files in which two container images differ, read from their OCI archives.

An archive is a tar file with the layout of the OCI image specification 1.0: `index.json` names a manifest, the manifest a config and
layers, each by its SHA-256, and a layer is a tar file of what it adds. A file `.wh.NAME` in a layer deletes NAME, and `.wh..wh..opq` all
that earlier layers had in its folder. Two images are equal if they have the same files, with the same content, kind, mode, owner and
extended attributes, and the same configuration. Times of files and the history of the build are not compared: each build has its own.
It holds no file in memory as a whole, and refuses an archive of several images, or whose bytes are not those of their digest.
"""

import argparse
import hashlib
import json
import os
import posixpath
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any


INDEX = "index.json"
_BLOBS = "blobs/sha256"
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_READ_BYTES = 1 << 20
_COMPARED = ("architecture", "os", "config")
"""Parts of the image's configuration. `created`, `history` and the digests of the layers follow from the build, or from the files."""


class OciArchiveError(Exception):
    """The file is no whole OCI archive of one image; the message has its place and the reason."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of the image's root, as a container sees it."""

    kind: str
    """`file`, `folder`, `link`, or `device` for all else."""
    mode: int
    owner: tuple[int, int]
    """The numbers of user and group."""
    content: str
    """SHA-256 of a file, the target of a link."""
    size: int
    """Bytes of a file; else 0."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Extended attributes, such as capabilities."""


def config_of(archive: Path) -> dict[str, Any]:
    """The image's configuration: `config.Env`, `config.Entrypoint` and so on. Raises OciArchiveError."""
    with _errors(archive), _opened(archive) as (tar, manifest):
        return _json(archive, tar, _blob(archive, manifest["config"]))


def entries_of(archive: Path, layers: int | None = None) -> dict[str, Entry]:
    """Every path of the root, without a leading slash, once all layers are applied, or so many of them. Raises OciArchiveError."""
    with _errors(archive):
        return _applied(archive, layers)


def added(archive: Path, base_layers: int) -> dict[str, Entry]:
    """The paths that the layers above these first ones add or change. Raises OciArchiveError."""
    base = entries_of(archive, base_layers)
    return {path: entry for path, entry in entries_of(archive).items() if base.get(path) != entry}


def _applied(archive: Path, layers: int | None) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for layer in islice(_layers(archive), layers):
        of_layer: dict[str, Entry] = {}
        for member in layer:
            name = _plain(member.name)
            hidden = _hidden(name)
            if hidden is not None:
                _forget(found, hidden)
            elif member.islnk():
                target = _plain(member.linkname)
                of_layer[name] = of_layer.get(target) or found[target]
            elif name:
                of_layer[name] = _entry(member, layer)
        for name, entry in of_layer.items():
            if entry.kind != "folder" and name in found and found[name].kind == "folder":
                _forget(found, f"{name}/")
        found |= of_layer
    return found


def unpack(archive: Path, folder: Path) -> None:
    """Write the image's root into a new folder, without devices. Only root can keep owners. Raises OciArchiveError.

    It is for images of our own: a hostile one could lead a path out of the folder by a link.
    """
    folder.mkdir()
    with _errors(archive):
        for layer in _layers(archive):
            of_layer = set[Path]()
            for member in layer:
                name = _plain(member.name)
                hidden = _hidden(name)
                if hidden is None and not member.isdev():
                    place = folder / name
                    if os.path.lexists(place) and not (member.isdir() and place.is_dir()):
                        _remove(place)
                    layer.extract(member, folder, numeric_owner=True, filter="fully_trusted")
                    of_layer.add(place)
                elif hidden is not None and hidden.endswith("/"):
                    for each in set((folder / hidden).iterdir()) - of_layer:
                        _remove(each)
                elif hidden is not None:
                    _remove(folder / hidden)


def differences(first: Path, second: Path) -> list[str]:
    """A line for each path, and each part of the configuration, in which the images differ, sorted. Raises OciArchiveError."""
    one, two = entries_of(first), entries_of(second)
    found = [f"/{path}: only in the {'first' if path in one else 'second'}" for path in one.keys() ^ two.keys()]
    for path in one.keys() & two.keys():
        a, b = one[path], two[path]
        parts = [
            name for name in ("kind", "mode", "owner", "content", "attributes") if getattr(a, name) != getattr(b, name)
        ]
        if parts:
            found.append(f"/{path}: {', '.join(parts)}")
    told, also = config_of(first), config_of(second)
    found += [f"configuration: {part}" for part in _COMPARED if told.get(part) != also.get(part)]
    return sorted(found)


# --- the layout ------------------------------------------------------------------------------------------------------------


@contextmanager
def _errors(archive: Path) -> Iterator[None]:
    """Say which archive is not whole."""
    try:
        yield
    except (tarfile.TarError, EOFError, OSError) as error:
        raise OciArchiveError(f"{archive}: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise OciArchiveError(f"{archive}: {INDEX}, the manifest or a layer lacks {error}") from error


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[tarfile.TarFile, Mapping[str, Any]]]:
    """The archive and its manifest, with every blob that the manifest names checked."""
    with tarfile.open(archive, "r:") as tar:
        manifests = _json(archive, tar, INDEX)["manifests"]
        if len(manifests) != 1:
            raise OciArchiveError(f"{archive}: {INDEX} names {len(manifests)} images, and 1 is read")
        manifest = _json(archive, tar, _blob(archive, manifests[0]))
        for blob in (manifest["config"], *manifest["layers"]):
            _check(archive, tar, _blob(archive, blob))
        yield tar, manifest


def _blob(archive: Path, descriptor: Mapping[str, Any]) -> str:
    kind, _, digest = str(descriptor["digest"]).partition(":")
    if kind != "sha256":
        raise OciArchiveError(f"{archive}: the digest {descriptor['digest']} is none of sha256")
    return f"{_BLOBS}/{digest}"


def _stream(archive: Path, tar: tarfile.TarFile, name: str) -> IO[bytes]:
    try:
        found = tar.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise OciArchiveError(f"{archive}: there is no file {name}")
    return found


def _check(archive: Path, tar: tarfile.TarFile, name: str) -> None:
    if _sha256(_stream(archive, tar, name)) != posixpath.basename(name):
        raise OciArchiveError(f"{archive}: {name} has other bytes than its digest says")


def _json(archive: Path, tar: tarfile.TarFile, name: str) -> dict[str, Any]:
    if name != INDEX:
        _check(archive, tar, name)
    try:
        told = json.load(_stream(archive, tar, name))
    except ValueError as error:
        raise OciArchiveError(f"{archive}: {name} is no JSON: {error}") from error
    if not isinstance(told, dict):
        raise OciArchiveError(f"{archive}: {name} is no JSON object")
    return told


# --- the layers ------------------------------------------------------------------------------------------------------------


def _layers(archive: Path) -> Iterator[tarfile.TarFile]:
    """Each layer, open for one pass from its first member to its last."""
    with _opened(archive) as (tar, manifest):
        for blob in manifest["layers"]:
            with tarfile.open(fileobj=_stream(archive, tar, _blob(archive, blob)), mode="r:*") as layer:
                yield layer


def _plain(name: str) -> str:
    """`usr/bin` for `./usr/bin/`; empty for the root itself."""
    return posixpath.normpath(f"/{name}").lstrip("/")


def _hidden(name: str) -> str | None:
    """The path that a whiteout of this name deletes: `FOLDER/` is all that earlier layers had in it. None for any other name."""
    folder, base = posixpath.split(name)
    if base == _OPAQUE:
        return f"{folder}/"
    return posixpath.join(folder, base.removeprefix(_WHITEOUT)) if base.startswith(_WHITEOUT) else None


def _forget(found: dict[str, Entry], hidden: str) -> None:
    """Delete a path with all below it; for `FOLDER/` only what is below."""
    below = f"{hidden.rstrip('/')}/".lstrip("/")
    for path in [path for path in found if path.startswith(below) or path == hidden]:
        del found[path]


def _entry(member: tarfile.TarInfo, layer: tarfile.TarFile) -> Entry:
    attributes = tuple(sorted((name, value) for name, value in member.pax_headers.items() if "xattr" in name))
    kind = "file" if member.isreg() else "folder" if member.isdir() else "link" if member.issym() else "device"
    content = member.linkname if kind == "link" else ""
    if kind == "file":
        opened = layer.extractfile(member)
        assert opened is not None  # a regular file has content
        content = _sha256(opened)
    size = member.size if kind == "file" else 0
    return Entry(kind, member.mode, (member.uid, member.gid), content, size, attributes)


def _sha256(stream: IO[bytes]) -> str:
    told = hashlib.sha256()
    while chunk := stream.read(_READ_BYTES):
        told.update(chunk)
    return told.hexdigest()


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.oci_archive", description=str(__doc__).partition("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    asked = parser.parse_args()
    try:
        found = differences(asked.first, asked.second)
    except OciArchiveError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
