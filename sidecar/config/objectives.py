"""Makes the table of objectives out of a config: for each declared lane, prompt bucket and objective.

Knows the order of precedence: the bucket, then the lane, then the lane's preset for the size of the model. A longer prompt never gets less time than a
shorter one, unless the config gives it less, which `checks.py` refuses. The use of the objectives is not known here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import UNSET, UnsetType, structs

from sidecar.config.buckets import bucket_labels
from sidecar.config.model_size import ModelSize, model_size
from sidecar.config.schema import (
    AimConfig,
    BucketObjectivesConfig,
    Config,
    LaneObjectivesConfig,
    StallAimConfig,
    TokenAimConfig,
)
from sidecar.ledger.account import Phase
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.objectives.objective import TTFT_SHARES, Aim, Aims, Objective, Objectives
from sidecar.objectives.presets import OBJECTIVE_PRESETS, Preset, longest_tokens, preset_for, rounded


NO_OBJECTIVE = AimConfig()


def objectives_of(config: Config) -> Objectives:
    """The objectives of every declared lane. `other` has none, and no config may give it one."""
    said, unsaid, edges = config.objectives, LaneObjectivesConfig(), config.prompt_buckets.edges
    size = size_of(config)
    by_lane = {lane: _aims(lane, said.get(lane, unsaid), edges, size) for lane in config.lanes.declared}
    if config.spans.without_proxy:
        by_lane = {
            lane: {label: _judged_by_spans(aims) for label, aims in buckets.items()}
            for lane, buckets in by_lane.items()
        }
    encodes = {
        lane: Aim(own.encode_e2e.threshold_seconds, own.encode_e2e.target)
        for lane, own in said.items()
        if own.encode_e2e is not None
    }
    return Objectives(by_lane, encodes, [lane for lane, own in said.items() if UNKNOWN in own.prompt_buckets])


def _judged_by_spans(aims: Aims) -> Aims:
    """No span tells for how long a stream stood still, nor whether an answer was streamed: each has a first token, and `e2e` counts where
    no other objective does.
    """
    return replace(aims, stall=None, e2e=None if aims.ttft or aims.tpot else aims.e2e)


def size_of(config: Config) -> ModelSize | None:
    """The size of the model behind a config, if it is known."""
    return model_size(config.engine.model_size_billions, config.engine.models)


def lanes_without_objectives(config: Config) -> list[str]:
    """The declared lanes, `other` among them, without any objective."""
    return [lane for lane, buckets in objectives_of(config).by_lane.items() if not any(buckets.values())]


def preset_name(lane: str, said: LaneObjectivesConfig) -> str:
    return said.preset or preset_for(lane)


def _preset(lane: str, said: LaneObjectivesConfig, size: ModelSize | None) -> Preset:
    return OBJECTIVE_PRESETS[preset_name(lane, said)].for_size(None if size is None else size.billions)


def lane_objective(objective: Objective, lane: str, said: LaneObjectivesConfig, size: ModelSize | None) -> AimConfig:
    """A lane's objective for prompts of ordinary and of unknown length."""
    own, preset = _own(said, objective), _preset(lane, said, size)
    unsaid = AimConfig(threshold_seconds=preset.threshold_seconds(objective), target=preset.target_of(objective))
    if own is None or (own is UNSET and unsaid.threshold_seconds is None):
        return NO_OBJECTIVE
    return unsaid if own is UNSET else _over(own, unsaid)


def bucket_objectives(
    objective: Objective, lane: str, said: LaneObjectivesConfig, edges: Sequence[int], size: ModelSize | None
) -> Mapping[str, AimConfig]:
    """A lane's objective for each prompt bucket, from short to long, then for `unknown`."""
    preset = _preset(lane, said, size)
    base = lane_objective(objective, lane, said, size)
    ttft_seconds = lane_objective(Objective.TTFT, lane, said, size).threshold_seconds
    found: dict[str, AimConfig] = {}
    least_seconds = 0.0
    for label, tokens in zip(bucket_labels(edges), longest_tokens(edges), strict=True):
        inherited = base
        if base.threshold_seconds is not None:
            stretched = _stretched(objective, base.threshold_seconds, ttft_seconds, preset, tokens)
            inherited = structs.replace(base, threshold_seconds=max(stretched, least_seconds))
        found[label] = _bucket_objective(objective, said.prompt_buckets.get(label), inherited, preset)
        least_seconds = max(least_seconds, found[label].threshold_seconds or 0.0)
    found[UNKNOWN] = _bucket_objective(objective, said.prompt_buckets.get(UNKNOWN), base, preset)
    return found


def _bucket_objective(
    objective: Objective, said: BucketObjectivesConfig | None, inherited: AimConfig, preset: Preset
) -> AimConfig:
    own = UNSET if said is None else _own(said, objective)
    if own is None:
        return NO_OBJECTIVE
    if own is UNSET:
        return inherited
    return _over(own, structs.replace(inherited, target=_first(inherited.target, preset.target_of(objective))))


def _stretched(
    objective: Objective, threshold_seconds: float, ttft_seconds: float | None, preset: Preset, tokens: int
) -> float:
    if objective in (Objective.TPOT, Objective.STALL) or ttft_seconds is None:
        return threshold_seconds
    extra = preset.extra_seconds(ttft_seconds, tokens)
    return rounded(threshold_seconds + extra) if extra else threshold_seconds


_AimConfig = AimConfig | TokenAimConfig | StallAimConfig


def _own(said: BucketObjectivesConfig, objective: Objective) -> _AimConfig | UnsetType | None:
    """The values for an objective; None if it is off."""
    own: _AimConfig | UnsetType | None = getattr(said, objective.value)
    return own


def _over(own: _AimConfig, inherited: AimConfig) -> AimConfig:
    return AimConfig(
        threshold_seconds=_first(own.threshold_seconds, inherited.threshold_seconds),
        target=_first(own.target, inherited.target),
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _aims(lane: str, said: LaneObjectivesConfig, edges: Sequence[int], size: ModelSize | None) -> dict[str, Aims]:
    of = {str(each): bucket_objectives(each, lane, said, edges, size) for each in Objective}
    shares = TTFT_SHARES
    if said.blame_shares is not None:
        own = said.blame_shares
        shares = {Phase.QUEUE: own.queue, Phase.PREFILL: own.prefill, Phase.FIRST_TOKEN: own.first_token}
    labels = (*bucket_labels(edges), UNKNOWN)
    return {label: Aims(shares=shares, **{name: found[label].aim for name, found in of.items()}) for label in labels}
