"""Counts the series that Prometheus stores of the demo's page, with classic histograms and with native ones.

The demo runs as its users run it, without alerting, and its page is read at the end. A native histogram is one series, and
a classic one has each edge and three more, so one page tells both. Counters and gauges are the same in both forms. Run:
`.venv/bin/python -m bench.native_series`, with `--minutes 60`; `--url http://POD:9901` counts the page of another sidecar.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


READY_SECONDS = 60.0
ENDS_SECONDS = 30.0
_SAYS = "metrics "


class Counted(NamedTuple):
    """The series of one page."""

    histograms: int
    """Histograms: series of their native form."""
    classic: int
    """Series of their classic form: buckets, sums and counts."""
    others: int
    """Counters and gauges."""

    def told(self) -> Iterator[str]:
        """The lines of the answer."""
        whole, native = self.classic + self.others, self.histograms + self.others
        yield f"histograms: {self.classic:,} series, native {self.histograms:,}: {_fewer(self.classic, self.histograms)}"
        yield f"counters and gauges: {self.others:,} series in both forms"
        yield f"the whole page: {whole:,} series, with native histograms {native:,}: {_fewer(whole, native)}"


def _fewer(before: int, after: int) -> str:
    return f"{before / after:.1f} times fewer" if after else "none"


def counted(page: str) -> Counted:
    """The series of a page in the text format, process_* and python_* included."""
    histograms = classic = others = 0
    for family in text_string_to_metric_families(page):
        if family.type == "histogram":
            classic += len(family.samples)
            histograms += sum(sample.name.endswith("_count") for sample in family.samples)
        else:
            others += len(family.samples)
    return Counted(histograms, classic, others)


def _read(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@contextmanager
def _demo() -> Iterator[str]:
    """The URL of the admin side of a demo's sidecar."""
    command = [sys.executable, "-m", "sidecar", "demo", "--plain", "--port=0", "--admin-port=0"]
    with tempfile.NamedTemporaryFile() as printed:
        # Without a PATH it finds no Prometheus: the page is the same, and the machine has less to do.
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, env={"PATH": ""})
        try:
            yield _address(process, Path(printed.name))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=ENDS_SECONDS)


def _address(process: subprocess.Popen[bytes], printed: Path) -> str:
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for line in printed.read_text().splitlines():
            if line.startswith(_SAYS):
                return line.removeprefix(_SAYS).strip().removesuffix("/metrics")
        time.sleep(0.2)
    raise RuntimeError("the demo did not say where its metrics are")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=3.0, help="how long the demo runs (default %(default)s)")
    arguments.add_argument("--url", help="the admin side of a sidecar that runs already")
    flags = arguments.parse_args()
    if flags.url:
        found = counted(_read(flags.url))
        print(flags.url)
    else:
        with _demo() as url:
            time.sleep(60 * flags.minutes)
            found = counted(_read(url))
        print(f"`sidecar demo`, after {flags.minutes:g} minutes")
    print("\n".join(found.told()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
