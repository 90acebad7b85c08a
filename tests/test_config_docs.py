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
from sidecar.config import NEEDS_RESTART, Config, LaneRule, PromptBucketsConfig
from sidecar.config_file import load
from sidecar.config_words import expected


PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = "| key | accepts | default | why, and what it means | on reload |\n|---|---|---|---|---|\n"


def reasons(model: type[BaseModel]) -> dict[str, str]:
    """The sentence under each key in config.py."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
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
    text = HEAD
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
        assert isinstance(field.annotation, type)
        found[section] = rows(section, field.annotation, (section,))
    found["lanes.rules"] = rows("lanes.rules[]", LaneRule, ("lanes", "rules", 0))
    return found


def written() -> dict[str, str]:
    """The tables as the page has them."""
    pattern = r"^## `([a-z_.]+)`$.*?(^\| key .*?)(?=^$)"
    return dict(re.findall(pattern, PAGE.read_text() + "\n", re.MULTILINE | re.DOTALL))


def test_every_key_is_documented_as_it_is() -> None:
    """A missing, stale or changed key fails, and the difference shows the row to write."""
    assert tables() == written()


def test_every_key_has_a_reason() -> None:
    """No default stands without the sentence that says why."""
    for name in dir(module):
        model = getattr(module, name)
        if name.endswith(("Config", "Rule")) and model is not Config:
            assert set(model.model_fields) == set(reasons(model)), name


def test_the_example_on_the_page_is_a_good_config(tmp_path: Path) -> None:
    """The example can be pasted as it stands."""
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "sidecar.yml"
    file.write_text(example)

    assert load(str(file)).lanes.declared == ("batch", "code", "interactive", "other")
    assert set(yaml.safe_load(example)) <= set(Config.model_fields)


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
    PAGE.write_text(page)
