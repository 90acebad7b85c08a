"""`make mutants`: every mistake that a rule can have, held against the scenarios, on all cores; some ten minutes on two.

Exits with 1 where a scenario does not come true with the rules as they are, where no scenario notices a mutant without an excuse, where
one notices a mutant with an excuse, and where promtool is missing. A complete run that succeeds is recorded in `record.json`.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.alert_rules.mutants import record
from tests.alert_rules.mutants.excuses import excuse, objections
from tests.alert_rules.mutants.mistakes import Mutant, mutants
from tests.alert_rules.mutants.play import LONGEST_RUN_SECONDS, seek
from tests.alert_rules.promtool import Scenario, Suite, run
from tests.alert_rules.suites import SUITES
from tests.support.tools import DEBIAN_PACKAGE


def main() -> None:
    """Print a line for each rule when its mutants are done, then every objection."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description="Hold every mistake in a rule against the scenarios."
    )
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="play nothing: check that record.json is of these rules, scenarios, mistakes and this promtool; the result would be the same",
    )
    only_recorded = parser.parse_args().recorded
    if shutil.which("promtool") is None:
        sys.exit(f"promtool is not installed (Debian: apt-get install {DEBIAN_PACKAGE['promtool']})")
    if only_recorded:
        if not record.is_recorded():
            sys.exit(
                f"{record.RECORD} is of other rules, scenarios, mistakes or another promtool: run `make mutants`, some ten minutes,"
                " and commit what it records"
            )
        _say(f"nothing has changed since the run that {record.RECORD.name} records")
        return
    began = time.monotonic()
    # Threads are enough: each of them waits for a promtool of one thread.
    workers = ThreadPoolExecutor(os.cpu_count())
    try:
        if untrue := "".join(workers.map(_complaints, SUITES)):
            sys.exit(f"the scenarios must come true with the rules as they are first:\n{untrue}")
        found = []
        for searched in _searches(workers):
            found += searched
            unnoticed = sum(scenario is None for _, scenario in searched)
            _say(
                f"{time.monotonic() - began:4.0f} s, {len(found)} of {len(mutants())} mutants:"
                f" {searched[0][0].rule} has {len(searched)}, {unnoticed} unnoticed"
            )
    finally:
        workers.shutdown(cancel_futures=True)
    wrong = objections(found)
    if not wrong:
        record.write(len(found))
    _say("\n".join(wrong) or "every mutant without an excuse is noticed, and none with one")
    sys.exit(bool(wrong))


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  a command's output


def _complaints(suite: Suite) -> str:
    with TemporaryDirectory() as folder:
        test_file = Path(folder) / suite.file_name
        test_file.write_text(suite.text())
        return run(test_file, timeout_seconds=LONGEST_RUN_SECONDS)


def _searches(workers: ThreadPoolExecutor) -> Iterator[list[tuple[Mutant, Scenario | None]]]:
    """The mutants of one rule after the other, each with the scenario that notices it, as they are done."""
    by_rule = [list(some) for _, some in groupby(mutants(), key=lambda one: str(one.rule))]
    # Those first that take long: with an excuse, all scenarios are played; else a core would be idle at the end.
    by_rule.sort(key=lambda some: (any(map(excuse, some)), len(some)), reverse=True)
    for done in as_completed([workers.submit(seek, SUITES, some) for some in by_rule]):
        yield done.result()


if __name__ == "__main__":
    main()
