"""docs/configuration.md: its tables have their sections, its examples are valid configs, and each key has a reason."""

import re
from pathlib import Path

from sidecar.config import schema as module
from sidecar.config.buckets import PromptBuckets
from sidecar.config.file import load
from sidecar.config.objectives import objectives_of
from sidecar.config.quick_yaml import read_yaml
from sidecar.config.schema import Config, PromptBucketsConfig
from sidecar.config.section import keys_of
from sidecar.objectives.objective import Aim
from tools.configuration_tables import blocks, reasons


PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_no_table_of_keys_is_left_of_a_section_that_is_gone() -> None:
    """Each heading with a table of keys below it is one that `make docs` writes to."""
    sections = re.split(r"^(?=## )", PAGE.read_text(), flags=re.MULTILINE)
    headings = {section.partition("\n")[0] for section in sections if "\n| key |" in section}

    assert headings == {block.heading for block in blocks()}


def test_every_key_has_a_reason() -> None:
    """Each default has a sentence with its reason."""
    for name in dir(module):
        model = getattr(module, name)
        if name.endswith(("Config", "Rule")) and model is not Config:
            assert set(keys_of(model)) == set(reasons(model)), name


def test_the_example_on_the_page_is_a_good_config(tmp_path: Path) -> None:
    """The example can be pasted unchanged."""
    example, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "sidecar.yml"
    file.write_text(example)

    assert load(str(file)).lanes.declared == ("batch", "code", "interactive", "other")
    assert set(read_yaml(example)) <= set(keys_of(Config))


def test_the_objectives_on_the_page_are_good_with_its_lanes(tmp_path: Path) -> None:
    """The example of the objectives can be pasted below the first one."""
    first, objectives = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "sidecar.yml"
    file.write_text(first + objectives)
    table = objectives_of(load(str(file)))

    assert table.aims("interactive", "4k-16k").ttft == Aim(5.0, 0.95)
    assert table.aims("interactive", "unknown").ttft == Aim(1.0, 0.95)
    assert table.aims("batch", "0-512").ttft is None


def test_the_bucket_labels_on_the_page_are_the_defaults() -> None:
    """The labels on the page are those that the default edges give."""
    labels = ", ".join(f"`{label}`" for label in PromptBuckets(PromptBucketsConfig().edges).labels)

    assert labels in PAGE.read_text()
