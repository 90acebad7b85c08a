"""Reads the cache of an engine from its page of metrics: a pure function from text to numbers."""

import re
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from sidecar.engines.kinds import KINDS


CACHE_INFOS = {kind.cache_info: kind.title for kind in KINDS.values() if kind.cache_info}
"""Name of the metric that states the cache, mapped to the engine that exposes it."""
CACHE_INFO = " or ".join(CACHE_INFOS)


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache of an engine, as the engine states it."""

    blocks: int
    """Blocks, summed over the engine's ranks."""
    block_size: int
    bits: int | None
    """Bits of one number in the cache if its type is fp8; None for other types: `auto` means the model's own type."""


def read_cache(page: str) -> Cache | None:
    """The cache on an engine's page of metrics; None if it states none. Raises ValueError for a page that cannot be read."""
    # Only these lines are parsed: a page may have megabytes of others.
    wanted = re.compile(rf"(?:{'|'.join(map(re.escape, CACHE_INFOS))})[ {{]")
    lines = "\n".join(line for line in page.splitlines() if wanted.match(line))
    found = [
        said
        for family in text_string_to_metric_families(lines + "\n")
        for said in (sample.labels for sample in family.samples)
        if said.get("num_gpu_blocks", "").isdecimal() and said.get("block_size", "").isdecimal()
    ]
    blocks = sum(int(said["num_gpu_blocks"]) for said in found)
    if not blocks or int(found[0]["block_size"]) < 1:
        return None
    return Cache(blocks, int(found[0]["block_size"]), 8 if found[0].get("cache_dtype", "").startswith("fp8") else None)
