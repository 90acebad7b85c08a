"""A generated table or list is replaced in its place, and the rest of the page is left as it is."""

import pytest

from tools.markdown import Block, replaced, table


PAGE = """# A

| other | head |
|---|---|
| stays | here |

Before.

| key | value |
|---|---|
| old | row |

After.

## Not to do

- **Old.** Bullet.

## End

- **Stay.**
"""


def test_a_table_has_a_head_and_escapes_the_pipes_of_its_cells() -> None:
    assert table(("key", "value"), [("a", "b|c")]) == "| key | value |\n|---|---|\n| a | b\\|c |\n"


def test_a_table_is_found_by_its_heading_and_its_first_column() -> None:
    new = table(("key", "value"), [("new", "row"), ("one", "more")])

    assert replaced(PAGE, Block("# A", new)) == PAGE.replace("| old | row |\n", "| new | row |\n| one | more |\n")


def test_a_list_is_found_by_its_heading() -> None:
    assert replaced(PAGE, Block("## Not to do", "- **New.** One.\n- Two.\n")) == PAGE.replace(
        "- **Old.** Bullet.\n", "- **New.** One.\n- Two.\n"
    )


@pytest.mark.parametrize(
    "block",
    [
        Block("## End", table(("key", "value"), [])),
        Block("# A", "- The list belongs to the next section.\n"),
        Block("## Elsewhere", "- x\n"),
        Block("## End", "Prose.\n"),
    ],
    ids=["no table", "another section", "no heading", "neither table nor list"],
)
def test_a_page_without_the_place_is_refused(block: Block) -> None:
    with pytest.raises(ValueError, match=r"nothing to replace|neither a table nor a list"):
        replaced(PAGE, block)
