"""docs/configuration.md and the typed config say the same: every key, its type, default, reason and whether a reload takes it.

Run this file as a script to write the tables anew after a key changed.
"""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import yaml
from pydantic import BaseModel

from sidecar import config as module
from sidecar.classify.length import PromptBuckets
from sidecar.config import (
    NEEDS_RESTART,
    AimConfig,
    BlameSharesConfig,
    Config,
    EngineConfig,
    LaneObjectivesConfig,
    LaneRule,
    LanesConfig,
    PromptBucketsConfig,
    TokenAimConfig,
)
from sidecar.config_file import load
from sidecar.config_objectives import objectives_of
from sidecar.config_words import expected
from sidecar.objectives.objective import Aim, Objective
from sidecar.objectives.presets import PRESETS


PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = "| key | accepts | default | why, and what it means | on reload |\n|---|---|---|---|---|\n"
PRESET_TABLE = r"^\| preset \|.*?(?=^$)"


def reasons(model: type[BaseModel]) -> dict[str, str]:
    """The sentence under each key in config.py."""
    found = {}
    for section in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
        assert isinstance(body, ast.ClassDef)
        for key, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name) and isinstance(text, ast.Expr):
                found[key.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def default_of(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        return str(value).lower()
    if value == "":
        return '""'
    if value is None or value in ((), {}):
        return "unset" if value is None else "none"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def rows(section: str, model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    """The rows of one section, without a head."""
    text = ""
    why = reasons(model)
    for name in model.model_fields:
        key = f"{section}.{name}"
        accepts = expected((*path, name)) if key != "lanes.rules" else "a list of 0 to 100 rules, see below"
        takes = "restart" if key in NEEDS_RESTART else "taken"
        cells = (f"`{key}`", accepts, default_of(model, name), why[name], takes)
        text += "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |\n"
    return text


def tables() -> dict[str, str]:
    """The table of each section, by its heading."""
    found = {}
    for section, field in Config.model_fields.items():
        if isinstance(field.annotation, type):
            found[section] = rows(section, field.annotation, (section,))
    found["lanes.rules"] = rows("lanes.rules[]", LaneRule, ("lanes", "rules", 0))
    lane = ("objectives", "LANE")
    found["objectives"] = rows("objectives.LANE", LaneObjectivesConfig, lane)
    for key, model in (("ttft", AimConfig), ("tpot", TokenAimConfig), ("blame_shares", BlameSharesConfig)):
        found["objectives"] += rows(f"objectives.LANE.{key}", model, (*lane, key))
    return {section: HEAD + text for section, text in found.items()}


def presets() -> str:
    """What the presets come to with the default edges."""
    labels = PromptBuckets(PromptBucketsConfig().edges).labels
    text = f"| preset | objective | target | {' | '.join(f'`{label}`' for label in labels)} |\n"
    text += "|---" * (3 + len(labels)) + "|\n"
    for name, preset in PRESETS.items():
        config = Config(engine=EngineConfig(url="http://a"), lanes=LanesConfig(default=name))
        aims = [objectives_of(config).aims(name, label) for label in labels]
        for objective in Objective:
            cells = [f"{aim.threshold_seconds:g} s" for each in aims if (aim := each.aim(objective))]
            if cells:
                text += f"| `{name}` | {objective} | {preset.target:g} | {' | '.join(cells)} |\n"
    return text


def written() -> dict[str, str]:
    """The tables as the page has them."""
    pattern = r"^## `([a-z_.]+)`$.*?(^\| key .*?)(?=^$)"
    return dict(re.findall(pattern, PAGE.read_text() + "\n", re.MULTILINE | re.DOTALL))


def test_every_key_is_documented_as_it_is() -> None:
    """A missing, stale or changed key fails, and the difference shows the row to write."""
    assert tables() == written()


def test_the_presets_are_documented_as_they_are() -> None:
    """The thresholds that hold where nobody said anything stand on the page."""
    assert re.findall(PRESET_TABLE, PAGE.read_text(), re.MULTILINE | re.DOTALL) == [presets()]


def test_every_key_has_a_reason() -> None:
    """No default stands without the sentence that says why."""
    for name in dir(module):
        model = getattr(module, name)
        if name.endswith(("Config", "Rule")) and model is not Config:
            assert set(model.model_fields) == set(reasons(model)), name


def test_the_example_on_the_page_is_a_good_config(tmp_path: Path) -> None:
    """The example can be pasted as it stands."""
    example, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "sidecar.yml"
    file.write_text(example)

    assert load(str(file)).lanes.declared == ("batch", "code", "interactive", "other")
    assert set(yaml.safe_load(example)) <= set(Config.model_fields)


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
    """The labels that the page names are those that the default edges give."""
    labels = ", ".join(f"`{label}`" for label in PromptBuckets(PromptBucketsConfig().edges).labels)

    assert labels in PAGE.read_text()


if __name__ == "__main__":
    page = PAGE.read_text()
    for name, table in tables().items():
        before, rest = page.split(f"\n## `{name}`\n")
        old = rest[rest.index("| key ") : (rest + "\n\n").index("\n\n", rest.index("| key "))]
        page = f"{before}\n## `{name}`\n{rest.replace(old, table.rstrip(), 1)}"
    PAGE.write_text(re.sub(PRESET_TABLE, presets(), page, flags=re.MULTILINE | re.DOTALL))
