"""Writes the tables of docs/configuration.md: each key with type, default, reason and reload, and the presets.

Knows how to write a field of the typed config as a row. The reason of a key is the sentence below it in its source.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from sidecar.config.buckets import PromptBuckets
from sidecar.config.objectives import objectives_of
from sidecar.config.schema import (
    RESTART,
    WHOLE_CONFIG,
    AimConfig,
    BlameSharesConfig,
    Config,
    EncodeAimConfig,
    EngineConfig,
    LaneObjectivesConfig,
    LaneRule,
    LanesConfig,
    PromptBucketsConfig,
    StallAimConfig,
    TokenAimConfig,
)
from sidecar.config.section import Accepted, Section, keys_of
from sidecar.objectives.objective import Objective
from sidecar.objectives.presets import LARGE_BILLIONS, OBJECTIVE_PRESETS, SMALL_BILLIONS
from tools.markdown import Block, table


HEAD = ("key", "accepts", "default", "meaning, and reason for the default", "on reload")
SIZES_HEAD = "tpot of preset"
_Row = tuple[str, ...]


def blocks() -> tuple[Block, ...]:
    """The table of each section, and the table of presets in the section on objectives."""
    found = {
        section: _rows(section, accepted.section)
        for section, accepted in WHOLE_CONFIG.keys.items()
        if accepted.section is not None
    }
    found["lanes.rules"] = _rows("lanes.rules[]", LaneRule)
    found["objectives"] = _rows("objectives.LANE", LaneObjectivesConfig)
    for key, model in (
        ("ttft", AimConfig),
        ("tpot", TokenAimConfig),
        ("stall", StallAimConfig),
        ("encode_e2e", EncodeAimConfig),
        ("blame_shares", BlameSharesConfig),
    ):
        found["objectives"] += _rows(f"objectives.LANE.{key}", model)
    keys = (Block(f"## `{section}`", table(HEAD, of)) for section, of in found.items())
    return *keys, Block("## `objectives`", _presets()), Block("## `objectives`", _sizes())


def _rows(section: str, model: type[Section]) -> list[_Row]:
    """The rows of one section."""
    why = reasons(model)
    rows: list[_Row] = []
    for name, accepted in keys_of(model).items():
        key = f"{section}.{name}"
        if accepted.section is not None and isinstance(accepted.default, Section):
            rows += _rows(key, accepted.section)  # a section within it
        else:
            rows.append(_row(key, accepted, why[name]))
    return rows


def _row(key: str, accepted: Accepted, why: str) -> _Row:
    accepts = str(accepted) if key != "lanes.rules" else "a list of 0 to 100 rules, see below"
    takes = "restart" if RESTART in accepted.notes else "taken"
    cells = (f"`{key}`", accepts, _default(accepted), why, takes)
    return tuple(cell.replace("*", "\\*") for cell in cells)


def reasons(model: type[Section]) -> dict[str, str]:
    """Key to the sentence below it in the config's source."""
    found = {}
    for section in reversed(model.__mro__[: model.__mro__.index(Section)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
        assert isinstance(body, ast.ClassDef)
        for key, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name) and isinstance(text, ast.Expr):
                found[key.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def _default(accepted: Accepted) -> str:
    """The default as a person would write it."""
    if accepted.required:
        return "required"
    value: Any = accepted.default
    if isinstance(value, bool):
        return str(value).lower()
    if value == "":
        return '""'
    if value in (None, UNSET, (), {}):
        return "unset" if value in (None, UNSET) else "none"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _presets() -> str:
    """The thresholds of each preset with the default edges."""
    labels = PromptBuckets(PromptBucketsConfig().edges).labels
    return table(("preset", "objective", "target", *(f"`{label}`" for label in labels)), _preset_rows(labels))


def _sizes() -> str:
    """The `tpot` threshold of each preset by the size of the model, where size has an effect."""
    head = (
        SIZES_HEAD,
        f"up to {SMALL_BILLIONS:g}",
        f"up to {LARGE_BILLIONS:g}, or unknown",
        f"above {LARGE_BILLIONS:g}",
    )
    sizes = (SMALL_BILLIONS, LARGE_BILLIONS, LARGE_BILLIONS + 1)
    rows = [
        (f"`{name}`", *(f"{preset.for_size(size).tpot_seconds:g} s" for size in sizes))
        for name, preset in OBJECTIVE_PRESETS.items()
        if preset.tpot_seconds is not None
    ]
    return table(head, rows)


def _preset_rows(labels: tuple[str, ...]) -> Iterator[_Row]:
    for name, preset in OBJECTIVE_PRESETS.items():
        config = Config(engine=EngineConfig(url="http://a"), lanes=LanesConfig(default=name))
        aims = [objectives_of(config).aims(name, label) for label in labels]
        for objective in Objective:
            cells = [f"{aim.threshold_seconds:g} s" for each in aims if (aim := each.aim(objective))]
            if cells:
                yield f"`{name}`", str(objective), f"{preset.target_of(objective):g}", *cells
