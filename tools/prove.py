"""`make prove`: every proof about bytes, on the compiled wheel that the image installs; `--only=soak,fuzz` some, `--long` as long as by hand.

It knows the proofs: the table below is the one in docs/promises.md too. It runs them one after the other in the place that
`tools/on_the_wheel.py` has made, whose Python refuses every sidecar that is not compiled. Exit code 1 if one is broken.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tools.on_the_wheel import PLACE, PYTHON
from tools.wheels import image_python


PYTEST = ("pytest", "--numprocesses=3", "--dist=worksteal")
WITHOUT_CLOCKS = ("-m", "not bench and not engine and not live and not drawn")


@dataclass(frozen=True, slots=True)
class Proof:
    """One row: what is proved, and the module with its words that proves it."""

    name: str
    shows: str
    words: tuple[str, ...]
    minutes: int
    """The most that it may take on two idle cores."""
    on_the_sources: str
    """The command that proves it on the sources in pure Python."""
    long_words: tuple[str, ...] = ()
    """The same where it runs as long as by hand; empty where it is never longer."""

    def command(self, *, long: bool) -> tuple[str, ...]:
        """The words behind `python -m`."""
        return (long and self.long_words) or self.words


PROOFS = (
    Proof(
        "relay",
        "the client gets the engine's bytes and the engine the client's, cut at every place; an observer that raises is not felt",
        (*PYTEST, *WITHOUT_CLOCKS, "tests/proxy", "tests/timeline", "tests/classify", "tests/observe"),
        4,
        "make test, make test-long",
    ),
    Proof(
        "histories",
        "thousands of requests give the same bytes and numbers on both builds, also where a function of the product raises",
        (*PYTEST, *WITHOUT_CLOCKS, "tests/histories", "tests/test_builds.py"),
        4,
        "make test-long",
    ),
    Proof(
        "differences",
        "the compiled build differs from Python where a table says so, and nowhere else",
        ("pytest", "tests/builds"),
        2,
        "",
    ),
    Proof(
        "garden",
        "no hostile request or answer is smuggled, split or changed, straight and behind nginx and HAProxy",
        ("pytest", "-m", "live", "tests/garden"),
        4,
        "make garden",
    ),
    Proof(
        "bombs",
        "two hundred compressed bodies of each coding at once end no container of 256 MiB or of 1 GiB, and who leaves is counted once",
        ("pytest", "tests/test_bombs.py"),
        2,
        "make test-long",
    ),
    Proof(
        "soak",
        "through a network that breaks each second no byte is wrong, and no more answers are cut than connections were broken",
        ("bench.soak", "--minutes=1"),
        3,
        "make soak",
        ("bench.soak", "--minutes=10"),
    ),
    Proof(
        "splits",
        "from an engine that cuts its writes anywhere, on a whole network, no answer is cut and no byte is wrong",
        ("bench.soak", "--whole-network", "--streams=500", "--minutes=1"),
        3,
        "make soak ARGS=--whole-network",
        ("bench.soak", "--whole-network", "--streams=2000", "--minutes=10"),
    ),
    Proof(
        "idle-edge",
        "a request that meets the engine's close is sent once more only with proof: no error without cause, no duplicate",
        ("bench.idle_edge",),
        2,
        "make idle-edge",
    ),
    Proof(
        "corpora",
        "what must hold for each parser holds for every kept input",
        (*PYTEST, "tests/fuzz"),
        2,
        "make test-long",
    ),
    Proof(
        "fuzz",
        "and for inputs that libFuzzer draws from them, for the parsers that are compiled",
        ("tests.fuzz", "--compiled", "--inputs=20000"),
        3,
        "make fuzz",
        ("tests.fuzz", "--compiled", "--seconds-each=600"),
    ),
)


def proved(proof: Proof, *, long: bool) -> bool:
    """Run one proof; says how long it took."""
    command = [str(PYTHON), "-m", *proof.command(long=long)]
    sys.stdout.write(f"\nprove: {proof.name}: {proof.shows}\n")
    sys.stdout.flush()
    began = time.monotonic()
    # With CI a missing tool fails: a proof that ran nothing does not hold.
    status = subprocess.run(command, cwd=PLACE, env=os.environ | {"CI": "true"}, check=False).returncode  # noqa: S603  our own words
    took = time.monotonic() - began
    sys.stdout.write(f"prove: {proof.name} {'is BROKEN' if status else 'holds'} after {took / 60:.1f} minutes\n")
    sys.stdout.flush()
    return not status


def main(arguments: Sequence[str] | None = None) -> int:
    names = [proof.name for proof in PROOFS]
    parser = argparse.ArgumentParser(prog="make prove", description="proofs about bytes, on the image's wheel")
    parser.add_argument("--only", default=",".join(names), help=f"some of {', '.join(names)}, with commas")
    parser.add_argument("--long", action="store_true", help="soak and fuzz for ten minutes each")
    asked = parser.parse_args(arguments)
    only = asked.only.split(",")
    if unknown := [name for name in only if name not in names]:
        parser.error(f"no proof is {', '.join(unknown)}: there are {', '.join(names)}")
    sys.stdout.write(f"prove: on the compiled wheel in {PLACE}, with Python {image_python()}\n")
    broken = [proof.name for proof in PROOFS if proof.name in only and not proved(proof, long=asked.long)]
    sys.stdout.write(
        f"\nprove: {len(only) - len(broken)} of {len(only)} hold{': broken: ' if broken else ''}{', '.join(broken)}\n"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
