"""One target under libFuzzer, in a process of its own: `python -m tests.fuzz.child TARGET [libFuzzer's arguments]`.

It knows atheris, and it alone imports it. The modules of the product are instrumented as they are imported; the libraries that
the product is compared with are not, so that the coverage is the product's own. A compiled module cannot be instrumented: there the
checks and the second reader of HTTP are, so that their branches guide. One check in 16 has its calls counted, but for those of
compiled functions, which Python does not tell.
"""

import os
import sys
import zlib

import atheris

from sidecar import IS_COMPILED


COUNTED_ONE_IN = 16


def main() -> None:
    with atheris.instrument_imports(include=["sidecar", "tests.fuzz", "h11"] if IS_COMPILED else ["sidecar"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415  imported here to be instrumented
    target = TARGETS[sys.argv[1]]

    def one_input(data: bytes) -> None:
        if zlib.crc32(data) % COUNTED_ONE_IN:
            target.check(data)
        else:
            target.checked_within_bounds(data)

    # libFuzzer starts itself again where it merges: by this name, which has to be a program.
    atheris.Setup([os.environ.get("FUZZ_PROGRAM", sys.argv[0]), *sys.argv[2:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
