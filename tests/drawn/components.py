"""Grafana's components from npm, and the bundle that draws a dashboard with them: made once, kept in `.cache/drawn`.

Knows npm, esbuild and where things lie. The packages are pinned by `drawing/package-lock.json` and never committed; nothing of them is
shipped. Missing tools skip the calling test, or fail it in CI.
"""

import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

from tests.support.tools import missing, need_tool


DRAWING = Path(__file__).parent / "drawing"
KEPT = Path(__file__).parents[2] / ".cache" / "drawn"
SOURCES = ("draw.jsx", "frames.js", "own.jsx")
INSTALL_SECONDS, BUNDLE_SECONDS = 540, 180
_LOADED = ("svg", "woff", "woff2", "png", "ttf")
_GRAFANAS = ("ui", "data", "schema")


def page_folder() -> Path:
    """The folder with `page.html` and its bundle; installs and bundles if anything has changed. A minute at the first time."""
    need_tool("node")
    npm = need_tool("npm")
    KEPT.mkdir(parents=True, exist_ok=True)
    _installed(npm)
    _bundled()
    shutil.copy(DRAWING / "page.html", KEPT)
    return KEPT


def _installed(npm: Path) -> None:
    lock = (DRAWING / "package-lock.json").read_text()
    stamp = KEPT / "installed.json"
    if stamp.exists() and stamp.read_text() == lock:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(DRAWING / name, KEPT)
    command = [str(npm), "ci", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=KEPT, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    if done.returncode:
        missing(f"npm cannot install Grafana's components: {done.stderr[-600:]}")
    stamp.write_text(lock)


def _bundled() -> None:
    made_of = (*(DRAWING / name for name in (*SOURCES, "package-lock.json")), Path(__file__))
    digest = sha256(b"".join(path.read_bytes() for path in made_of)).hexdigest()
    stamp = KEPT / "bundled"
    if stamp.exists() and stamp.read_text() == digest:
        return
    modules = KEPT / "node_modules"
    command = [
        str(modules / ".bin" / "esbuild"),
        *(str(DRAWING / "draw.jsx"), "--bundle", "--format=iife", "--jsx=automatic", "--log-level=error"),
        *("--define:global=globalThis", f"--define:process.env.NODE_ENV={json.dumps('production')}"),
        *(f"--loader:.{kind}=dataurl" for kind in _LOADED),
        # esbuild's interop of default imports breaks Table from the ES modules.
        *(f"--alias:@grafana/{name}={modules}/@grafana/{name}/dist/cjs/index.cjs" for name in _GRAFANAS),
        f"--outfile={KEPT / 'bundle.js'}",
    ]
    environment = {**os.environ, "NODE_PATH": str(modules)}
    subprocess.run(command, check=True, env=environment, timeout=BUNDLE_SECONDS)
    stamp.write_text(digest)
