"""The pages agree with the code: every generated page, table and list is what `make docs` writes now."""

from functools import cache
from pathlib import Path

import pytest

from tools.docs import CHECKOUT, blocks, main, pages, whole


written = cache(pages)


@pytest.mark.parametrize("path", [*whole(), *blocks()])
def test_a_page_is_the_one_that_the_code_writes(path: str) -> None:
    """If this fails: `make docs`. In a page of which a part is generated, edit the code or the data file, not that part."""
    assert (CHECKOUT / path).read_text("utf-8") == written()[path]


def test_the_command_writes_what_is_stale_and_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, text in written().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    (tmp_path / "docs/engines.md").write_text("# Of an older version\n", "utf-8")
    errors = tmp_path / "docs/errors.md"
    errors.write_text(errors.read_text("utf-8").replace("| `bad_host` | 400 |", "| `bad_host` | 500 |"), "utf-8")

    main(tmp_path)

    assert capsys.readouterr().out.splitlines() == ["docs/engines.md", "docs/errors.md"]
    assert {path: (tmp_path / path).read_text("utf-8") for path in written()} == written()
