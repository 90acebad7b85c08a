"""Explains a config that is right to a person, for `sidecar check`: where it listens, lanes, rules, objectives, series, sources, notes.

Knows how the parts of a config work together, and the width of a terminal. Refuses nothing, and reads no file.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import asdict

from sidecar.config.buckets import bucket_labels
from sidecar.config.folding import WIDTH, folded
from sidecar.config.in_force import rows, source_words
from sidecar.config.notes import notes
from sidecar.config.objectives import (
    bucket_objectives,
    lane_objective,
    lanes_without_objectives,
    objectives_of,
    preset_name,
    size_of,
)
from sidecar.config.schema import NO_TRAFFIC, AimConfig, Config, LaneObjectivesConfig, LaneRule
from sidecar.config.series_count import series_ceiling, series_in_use
from sidecar.config.values import MASK, may_authenticate
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.objectives.objective import Objective


def explained(config: Config, columns: int = WIDTH) -> str:
    """The whole explanation; a name or an address that is longer than a line stands whole."""
    lanes = config.lanes
    facts = [
        ("engine", f"{config.engine.url} (kind {config.engine.kind})"),
        ("traffic", NO_TRAFFIC if config.spans.without_proxy else config.proxy.listen_address),
        ("admin", config.web.listen_address),
        ("lanes", f"{', '.join(lanes.declared)} (default: {lanes.default})"),
        ("buckets", f"{', '.join((*bucket_labels(config.prompt_buckets.edges), UNKNOWN))} (prompt tokens)"),
        ("labels", f"quantization={config.labels.quantization}, gpu_type={config.labels.gpu_type}"),
    ]
    ways = [(rule.lane, f"if {_conditions(rule)}") for rule in lanes.rules]
    if lanes.span_attribute is not None:
        ways.insert(0, (f"the span's {lanes.span_attribute},", "if it names a lane; with any other value: other"))
    if lanes.header is not None:
        ways.insert(0, (f"the header {lanes.header},", "if it names a lane; with any other value: other"))
    told = [(", ".join(note.names), note.hint) for note in notes(config)]
    return "\n".join(
        [
            "The config is valid.",
            "",
            *_listed(facts, columns),
            "",
            *_sources(config, columns),
            "",
            "A request's lane is the first that applies:",
            *_listed([*ways, (lanes.default, "otherwise")], columns, "  "),
            "",
            *folded(
                "Objectives of each lane: seconds by prompt length, to be met by the target share of its requests:",
                columns,
            ),
            *_objectives(config, columns),
            *folded(_size(config), columns, "  "),
            "",
            *_listed(_series(config), columns),
            *_listed((("note", f"{names}: {hint}") for names, hint in told), columns),
            "",
        ]
    )


def _listed(facts: Iterable[tuple[str, str]], columns: int, indent: str = "") -> list[str]:
    return [line for name, value in facts for line in folded(value, columns, f"{indent}{name:<10} ")]


def _sources(config: Config, columns: int) -> list[str]:
    head = "Keys that are set, and by which source (a flag wins, then the environment, then the file); all others have their default:"
    found = (f"{row.key}: {row.value} ({source_words(row.source)})" for row in rows(config))
    return [*folded(head, columns), *(line for text in found for line in folded(text, columns, "  ", " " * 6))]


def _conditions(rule: LaneRule) -> str:
    said = []
    for key, value in asdict(rule).items():
        if value is None:
            continue
        if key == "headers":
            said += [f"header {name} is {_values(name, values)}" for name, values in value.items()]
        elif isinstance(value, tuple):
            said.append(f"{key} is {' or '.join(value)}")
        elif key != "lane":
            said.append(f"{key} {str(value).lower()}")
    return " and ".join(said)


def _values(header: str, values: Iterable[str]) -> str:
    return MASK if may_authenticate(header) else " or ".join(values)


def _objectives(config: Config, columns: int) -> list[str]:
    """The objectives as one table; where that is too wide, as one of each lane; where that is too wide too, in sentences."""
    buckets = (*bucket_labels(config.prompt_buckets.edges), UNKNOWN)
    lanes = {lane: list(_lane_rows(config, lane)) for lane in config.lanes.declared}
    lanes = {lane: found for lane, found in lanes.items() if found}
    wide = [
        ((lane, _preset(config, lane)) if first == 0 else ("", "")) + row
        for lane, found in lanes.items()
        for first, row in enumerate(found)
    ]
    table = _table([("lane", "preset", "objective", "target", *buckets), *wide], columns, "  ") if wide else []
    if table is None:
        table = []
        for lane, found in lanes.items():
            table += folded(f"{lane} (preset {_preset(config, lane)})", columns, "  ")
            own = _table([("objective", "target", *buckets), *found], columns, "    ")
            table += _sentences(found, buckets, columns) if own is None else own
    silent = lanes_without_objectives(config)
    return [*table, *_listed(((lane, "no objective, so it never pages") for lane in silent), columns, "  ")]


def _preset(config: Config, lane: str) -> str:
    return preset_name(lane, config.objectives.get(lane, LaneObjectivesConfig()))


def _lane_rows(config: Config, lane: str) -> Iterator[tuple[str, ...]]:
    """Objective, target, and a cell for each bucket, which shows its target too if that differs from the lane's."""
    said, size = config.objectives.get(lane, LaneObjectivesConfig()), size_of(config)
    judged = objectives_of(config).by_lane[lane].values()
    for objective in (each for each in Objective if any(aims.aim(each) for aims in judged)):
        settings = bucket_objectives(objective, lane, said, config.prompt_buckets.edges, size)
        targets = [setting.aim.target for setting in settings.values() if setting.aim is not None]
        if targets:
            target = lane_objective(objective, lane, said, size).target or targets[0]
            yield str(objective), f"{target:.6g}", *(_cell(setting, target) for setting in settings.values())
    if (own := said.encode_e2e) is not None:
        buckets = len(bucket_labels(config.prompt_buckets.edges)) + 1  # the last is `unknown`
        yield "encode_e2e", f"{own.target:.6g}", *(f"{own.threshold_seconds:.6g}",) * buckets


def _cell(setting: AimConfig, target: float) -> str:
    if setting.aim is None:
        return "-"
    seconds = f"{setting.aim.threshold_seconds:.6g}"
    return seconds if setting.aim.target == target else f"{seconds} ({setting.aim.target:.6g})"


def _table(rows_: Sequence[tuple[str, ...]], columns: int, indent: str) -> list[str] | None:
    """The rows below each other, with two spaces between cells or one; None if one is too few."""
    widths = [max(map(len, column)) for column in zip(*rows_, strict=True)]
    for gap in ("  ", " "):
        lines = [indent + gap.join(map(str.ljust, row, widths)).rstrip() for row in rows_]
        if max(map(len, lines)) <= columns:
            return lines
    return None


def _sentences(found: Sequence[tuple[str, ...]], buckets: Sequence[str], columns: int) -> list[str]:
    said = (
        (objective, f"target {target}: " + ", ".join(map(" ".join, zip(buckets, cells, strict=True))))
        for objective, target, *cells in found
    )
    return _listed(said, columns, "    ")


def _size(config: Config) -> str:
    """The size of the model, which the presets' tpot depends on, and where to read why."""
    size = size_of(config)
    why = "docs/configuration.md has the sources of these values: reading speed, and limits of MLPerf"
    if size is None:
        return f"The presets' tpot is that for a model of unknown size: name it in engine.models, or state engine.model_size_billions; {why}."
    return f"The presets' tpot is that for {size.billions:g} billion parameters, from {size.source}; {why}."


def _series(config: Config) -> list[tuple[str, str]]:
    listed, limit = len(config.engine.models), config.metrics.series_limit
    used, ceiling = series_in_use(config), series_ceiling(config)
    stop = f"; the process stops at metrics.series_limit, {limit}" if ceiling > limit else f" (limit {limit})"
    models = "1 model (engine.models is empty: the engine's own list is taken, which may be longer)"
    counted = f"{listed} model{'s' if listed > 1 else ''}" if listed else models
    shown = f"metrics.profile: lean shows about {series_in_use(config, 'lean')} of them, and process_*"
    return [
        ("series", f"about {used} in full use of streams; all combinations would be {ceiling}{stop}"),
        *([("", shown)] if config.metrics.profile == "lean" else []),
        ("", f"counted with {counted}; docs/metrics.md has the formula"),
    ]
