"""`python -m tools.docs`, or `make docs`: writes the parts of docs/ and of the runbooks that come from the code.

Knows which pages are written whole, and which contain tables or lists between prose. A test checks that the committed
pages are up to date.
"""

import sys
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from sidecar.diagnosis.interventions import chapters
from tools import (
    budgets_page,
    commands_table,
    configuration_tables,
    doctor_table,
    engines_page,
    errors_table,
    kinds_table,
    metrics_page,
    promises_page,
    runbook_texts,
    sizing_tables,
)
from tools.markdown import Block, replaced


CHECKOUT = Path(__file__).parents[1]


def whole() -> Mapping[str, str]:
    """Pages that are written from the first line to the last, by path below the checkout."""
    return {
        "docs/budgets.md": budgets_page.page(),
        "docs/engines.md": engines_page.page(),
        "docs/metrics.md": metrics_page.page(),
        "docs/promises.md": promises_page.page(),
    }


def blocks() -> Mapping[str, tuple[Block, ...]]:
    """Tables and lists within pages that are written by hand, by the page's path."""
    return {
        "CONTRIBUTING.md": (commands_table.block(),),
        "docs/configuration.md": configuration_tables.blocks(),
        "docs/doctor.md": (doctor_table.block(),),
        "docs/errors.md": (errors_table.block(),),
        "docs/inject.md": (kinds_table.block(),),
        "docs/sizing.md": sizing_tables.blocks(),
        **{f"sidecar/runbooks/{name}.md": runbook_texts.blocks(name, chapters()) for name in chapters()},
    }


def pages(checkout: Path = CHECKOUT) -> Mapping[str, str]:
    """Every page of both kinds, as written from the code now. The prose around tables is read from `checkout`."""
    held = {path: reduce(replaced, of, (checkout / path).read_text("utf-8")) for path, of in blocks().items()}
    return {**whole(), **held}


def main(checkout: Path = CHECKOUT) -> None:
    """Write all pages; print which of them changed."""
    for path, text in pages(checkout).items():
        if text != (checkout / path).read_text("utf-8"):
            (checkout / path).write_text(text, "utf-8")
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
