"""The outcomes of all probes, as JSON: `python outcomes.py FOLDER`, where FOLDER/sidecar holds the file of probes, compiled or not.

With a number behind the folder: the outcome of a function that calls itself so often.
"""

import copy
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any


def outcome(function: Callable[..., object], arguments: tuple[Any, ...]) -> str:
    """The text of what the call gives: its value and what it left in the arguments, or the kind of its error."""
    given = copy.deepcopy(arguments) if not any(isinstance(each, memoryview) for each in arguments) else arguments
    try:
        value = function(*given)
    except BaseException as error:  # noqa: BLE001  whatever it is, the other build must raise it too
        return type(error).__name__
    return repr((value, [each for each, was in zip(given, arguments, strict=True) if repr(each) != repr(was)]))


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    probes = importlib.import_module("sidecar.probes")
    if len(sys.argv) > 2:
        sys.stdout.write(outcome(probes.deeper, (int(sys.argv[2]),)))
        return
    found = {name: [outcome(function, case) for case in cases] for name, (function, cases) in probes.PROBES.items()}
    json.dump({"file": probes.__file__, "found": found}, sys.stdout)


if __name__ == "__main__":
    main()
