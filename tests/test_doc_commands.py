"""Each block of commands on the pages is run as it stands there, or says why it is not.

`tests/support/doc_blocks.py` has the marks. Blocks that need ports or minutes are `live`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.doc_blocks import CHECKOUT, Block, blocks_of, commands_of_page, faults, pages, stories
from tests.support.doc_stories import StoryError, run_story


NOT_RUN_AT_MOST = 1 / 4
QUICKSTART = CHECKOUT / "docs/quickstart.md"
TYPED_LINES_AT_MOST = 10
IN_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SAYS_HOW_MANY = ("docs/quickstart.md", "README.md", "tests/real/test_vllm_quickstart.py")
WITH_COMMANDS = [page for page in pages() if commands_of_page(page)]
TOLD = [story for page in WITH_COMMANDS if page != QUICKSTART for story in stories(page)]
"""The quickstart is typed beside a real vLLM (`tests/real/test_vllm_quickstart.py`)."""
STORY_SECONDS = 900


def named(value: Path | Sequence[Block]) -> str:
    return str(value.relative_to(CHECKOUT)) if isinstance(value, Path) else value[0].place


def cases() -> list[object]:
    """Every story; one that needs ports or minutes is live, with a time limit of its own."""
    live = [pytest.mark.live, pytest.mark.timed, pytest.mark.timeout(STORY_SECONDS)]
    return [
        pytest.param(story, id=named(story), marks=live if any(block.is_live for block in story) else [])
        for story in TOLD
    ]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=named)
def test_every_block_of_commands_is_marked(page: Path) -> None:
    assert faults(page) == []


@pytest.mark.long
@pytest.mark.parametrize("story", cases())
def test_the_commands_of_a_page_can_be_typed_as_they_stand(story: Sequence[Block], tmp_path: Path) -> None:
    """Each ends with an exit code that its mark states, 0 without one; a server answers."""
    assert len(run_story(story, tmp_path)) == len(story)


def test_at_most_one_block_in_four_is_not_run() -> None:
    blocks = [block for page in WITH_COMMANDS for block in commands_of_page(page)]
    left_out = [block.place for block in blocks if block.kind != "run"]

    assert len(blocks) > 20
    assert len(left_out) <= NOT_RUN_AT_MOST * len(blocks), left_out


def test_a_block_that_another_part_of_ci_runs_is_in_that_part() -> None:
    """Every command of it is a part of .ci/run, or a test module reads the page and runs its lines."""
    absent = []
    for block in (block for page in WITH_COMMANDS for block in commands_of_page(page) if block.first("by")):
        runner = CHECKOUT / block.first("by")
        text = runner.read_text() if runner.is_file() else ""
        wanted = [line.partition("#")[0].strip() for line in block.text.splitlines()]
        if runner.name != "run":
            wanted = [block.page.name]
        absent += [
            f"{block.place}: {line}"
            for line in wanted
            if line and not re.search(rf"(^| |/|\"){re.escape(line)}($|\"| )", text, re.MULTILINE)
        ]

    assert absent == []


def test_the_quickstart_is_at_most_ten_lines_and_all_of_them_are_run() -> None:
    blocks = commands_of_page(QUICKSTART)
    typed = typed_lines(blocks)

    assert {block.kind for block in blocks} == {"run"}
    assert len(typed) <= TYPED_LINES_AT_MOST, typed


def test_each_place_that_counts_the_quickstarts_lines_has_their_number() -> None:
    number = IN_WORDS[len(typed_lines(commands_of_page(QUICKSTART)))]
    told = {
        place: {word.lower() for word in re.findall(r"([A-Za-z]+)[ _]typed[ _]lines", (CHECKOUT / place).read_text())}
        for place in SAYS_HOW_MANY
    }

    assert told == {place: {number} for place in SAYS_HOW_MANY}


def typed_lines(blocks: Sequence[Block]) -> list[str]:
    return [line for block in blocks for line in block.text.splitlines() if line and not line.startswith("#")]


# --- the marks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "fault"),
    [
        ("<!-- run -->", ""),
        ("<!-- run: as first, beside an engine, until http://127.0.0.1:9901/-/ready, then stop -->", ""),
        ("<!-- not run: needs a cluster -->", ""),
        ("", "no mark"),
        ("<!-- not run: no -->", "a reason"),
        ("<!-- run: quickly -->", "no clause begins with 'quickly'"),
        ("<!-- run: beside a horse -->", "beside 'a horse' does not match"),
        ("<!-- run: with sidecar.yml -->", "no block of this page is marked `<!-- file: sidecar.yml -->`"),
        ("<!-- run: after first -->", "no earlier block of this page is marked `as first`"),
    ],
)
def test_a_mark_is_found_and_a_wrong_one_is_told(mark: str, fault: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Text.\n\n{mark}\n```sh\ntrue\n```\n")

    told = faults(page)

    assert [re.sub(r"^page.md:\d+: ", "", one)[: len(fault)] for one in told] == ([fault] if fault else [])


def test_a_mark_with_an_empty_line_below_it_is_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- run -->\n\n```sh\ntrue\n```\n")

    assert [block.kind for block in blocks_of(page)] == [""]


def test_commands_run_in_one_folder_beside_the_files_that_they_name(tmp_path: Path) -> None:
    """A story goes on where it began, an answer is typed, and an exit code other than the stated one is told."""
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: a.yml -->\n```yaml\nkey: 1\n```\n"
        "<!-- run: as first, with a.yml, typing secret -->\n```sh\nread -r word && cat a.yml > b && echo $word >> b\n```\n"
        "<!-- run: after first, exit 3 -->\n```sh\ndiff b <(printf 'key: 1\\nsecret\\n') && exit 3\n```\n"
        "<!-- run -->\n```sh\nfalse | true\n```\n"
    )
    both, wrong = stories(page)

    codes = run_story(both, tmp_path)
    with pytest.raises(StoryError) as told:
        run_story(wrong, tmp_path / "other")

    assert (codes, str(told.value).splitlines()[0]) == ([0, 3], "page.md:14: exit code 1")
