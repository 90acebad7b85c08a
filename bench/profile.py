"""`make profile`: where the sidecar spends its time on a token, or on a request, as a flame graph.

The sidecar, built from its Python sources, runs under the load of `make bench` on a core of its own, and py-spy looks at its
stack a thousand times a second. With --native it stops it for each look, else it does not stop it at all. The graph and the table
are of two runs, because a process can be stopped by one py-spy alone. Only time on the processor counts. The graph is an SVG for a
browser, in which each frame is as wide as its share; the functions that take most by themselves are printed. It states shares, and no
cost: under a profiler that is another one. py-spy must be allowed to look at another process: as root, or with
`sysctl kernel.yama.ptrace_scope=0`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.build import CACHE, MissingError, environment, generator
from bench.peers.measure import FailedError, Generator
from bench.peers.proxies import BrokenError, sidecar


LOADS = {
    "token": ("streams", {"n": 300, "settle_ms": 1000}),
    "request": ("requests", {"k": 8, "settle_ms": 1000}),
    "short-request": ("requests", {"k": 8, "settle_ms": 1000, "most_bytes": 400}),
}
LOOKS_A_SECOND = 1000
MOST_SHOWN = 25
WRITING_SECONDS = 60
"""Most seconds from the end of the load until py-spy has written what it saw."""
_LINE = re.compile(r":[0-9]+\)$")


def profile(load: str, seconds: int, folder: Path, *, native: bool) -> list[str]:
    """Look at the sidecar under this load for so many seconds; writes LOAD.svg and LOAD.txt there. Returns the stacks, each with
    its number of looks. `native`: with frames of C. Raises MissingError, BrokenError or FailedError.
    """
    program = environment("requirements-profile.txt", "venv-profile") / "py-spy"
    mode, timing = LOADS[load]
    engine = Generator(generator())
    raw = folder / f"{load}.txt"
    try:
        with tempfile.TemporaryDirectory() as scratch, sidecar(engine.port, Path(scratch), usage=True) as running:
            command = [str(program), "record", "--native" if native else "--nonblocking"]
            command += ["--pid", str(running.pid), "--rate", str(LOOKS_A_SECOND), "--duration", str(seconds)]
            files = {"raw": raw, "flamegraph": folder / f"{load}.svg"}
            for kind, path in files.items():
                with _look([*command, "--format", kind, "--output", str(path)]) as look:
                    engine.play(mode, running, timing | {"window_ms": seconds * 1000})
                    _end(look)
    finally:
        engine.close()
    return raw.read_text().splitlines()


@contextmanager
def _look(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """py-spy at work; it is killed if it still is at the end."""
    look = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        yield look
    finally:
        look.kill()
        look.communicate()


def _end(look: subprocess.Popen[str]) -> None:
    try:
        _, said = look.communicate(timeout=WRITING_SECONDS)
    except subprocess.TimeoutExpired:
        raise FailedError(f"py-spy has not written its file after {WRITING_SECONDS} s") from None
    if look.returncode:
        raise FailedError(f"py-spy: {said.strip()[-500:]}")


def shares(stacks: list[str]) -> list[tuple[str, float, float]]:
    """The functions with their share by themselves, and with all that they call; the largest first."""
    alone: Counter[str] = Counter()
    together: Counter[str] = Counter()
    for line in stacks:
        stack, _, looks = line.rpartition(" ")
        names = [_LINE.sub(")", frame) for frame in stack.split(";")]
        alone[names[-1]] += int(looks)
        for name in set(names):
            together[name] += int(looks)
    looks_in_all = max(1, alone.total())
    return [(name, count / looks_in_all, together[name] / looks_in_all) for name, count in alone.most_common()]


def main() -> int:
    about, _, rest = str(__doc__).partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile",
        description=about,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("load", nargs="*", metavar="LOAD", help=f"one or more of: {', '.join(LOADS)}; default: all")
    parser.add_argument("--seconds", type=int, default=10, help="duration of each, at least 1; default 10")
    parser.add_argument("--native", action="store_true", help="frames of C too: the interpreter and its libraries")
    asked = parser.parse_args()
    if unknown := sorted({*asked.load} - {*LOADS}):
        parser.error(f"{', '.join(unknown)}: allowed are {', '.join(LOADS)}")
    if asked.seconds < 1:
        parser.error(f"--seconds={asked.seconds}: at least 1")
    folder = CACHE.parent / "profile"
    folder.mkdir(parents=True, exist_ok=True)
    for load in asked.load or LOADS:
        try:
            stacks = profile(load, asked.seconds, folder, native=asked.native)
        except (MissingError, BrokenError, FailedError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        print(f"\n{load}: share by itself, and with all that it calls\n")
        for name, alone, together in shares(stacks)[:MOST_SHOWN]:
            print(f"  {alone:6.1%}  {together:6.1%}  {name}")
        print(f"\n{folder / load}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
