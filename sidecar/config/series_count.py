"""How many series a config makes: the numbers for `sidecar check`, and the refusal of a config that needs more than its limit.

Knows which values of a config multiply. Refuses to know metrics: their numbers come from the catalogue.
"""

from collections.abc import Callable, Iterator

from sidecar.config.checks import Finding
from sidecar.config.objectives import objectives_of
from sidecar.config.schema import Config
from sidecar.metrics import catalogue
from sidecar.metrics.declaration import Profile
from sidecar.objectives.objective import Objective


SeriesInUse = Callable[[Config], int]
"""From a config to the series of its process in full use."""


def series_in_use(config: Config, profile: Profile = "full") -> int:
    """The series in full use (`Metric.in_use`), with the objectives of this config. `profile`: those that it shows."""
    by_lane = objectives_of(config).by_lane
    lanes, buckets, models = _sizes(config)
    aims = sum(aims.aim(of) is not None for lane in by_lane.values() for aims in lane.values() for of in Objective)
    return catalogue.series_in_use(
        *(lanes, buckets, models),
        catalogue.catalogue(inter_token_by_prompt_bucket=config.metrics.inter_token_by_prompt_bucket, profile=profile),
        aimed=aims / (max(1, lanes - 1) * buckets * len(Objective)),
    )


def series_ceiling(config: Config) -> int:
    """The series of all combinations that can exist."""
    split = config.metrics.inter_token_by_prompt_bucket
    return catalogue.series_ceiling(*_sizes(config), catalogue.catalogue(inter_token_by_prompt_bucket=split))


def too_many(config: Config, in_use: SeriesInUse) -> Iterator[Finding]:
    """The limit, if full use is above it. The ceiling may well be above: the process then stops at the limit."""
    limit, wanted = config.metrics.series_limit, in_use(config)
    if wanted > limit:
        lanes, buckets, models = _sizes(config)
        counted = f"{lanes} lanes, {buckets} prompt buckets and {models} models (fallbacks included)"
        text = f"is {limit}, but {counted} make {wanted} series in full use; take fewer of them, or a higher limit"
        yield ("metrics", "series_limit"), text


def _sizes(config: Config) -> tuple[int, int, int]:
    """Lanes, prompt buckets and models, each with its fallback; an unsaid list of models is counted as one model."""
    return len(config.lanes.declared), len(config.prompt_buckets.edges) + 2, max(1, len(config.engine.models)) + 1
