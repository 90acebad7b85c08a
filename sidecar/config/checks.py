"""Checks keys against each other, for contradictions that no single value shows.

Works on a config in which WRONG stands for each value that is wrong in itself, so that one wrong key never hides what is wrong with
the others. Pure.
"""

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import filterfalse
from typing import Any

from msgspec import UNSET
from msgspec.structs import astuple

from sidecar.config.buckets import bucket_labels
from sidecar.config.model_size import ModelSize, model_size
from sidecar.config.objectives import bucket_objectives, lane_objective, preset_name
from sidecar.config.schema import KEYS, OF_TRAFFIC, WHOLE_CONFIG, Config, LaneObjectivesConfig, LaneRule, LanesConfig
from sidecar.config.section import KEY_MARK, WRONG, Path, keys_of
from sidecar.config.suggest import did_you_mean
from sidecar.config.values import Address, parse_address, parse_engine_url
from sidecar.engines.engine import AUTO
from sidecar.engines.kinds import KINDS, kind_named
from sidecar.engines.probe.where import unix_path
from sidecar.ledger.request_labels import OTHER, UNKNOWN
from sidecar.objectives.objective import Objective


Finding = tuple[Path, str]

_ANY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104  compared with, not bound
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NO_PROXY = "spans.without_proxy (--no-proxy)"
_OF_SPANS = ("lane", "models", "max_tokens_at_least", "max_tokens_at_most", "prompt_tokens_from", "prompt_tokens_below")
"""Keys of a lane's rule that a span can answer."""
_AT_MOST = (
    ("proxy.look_in_bytes", "proxy.max_body_bytes"),
    ("proxy.tunnel_idle_timeout_seconds", "proxy.tunnel_total_timeout_seconds"),
    ("proxy.max_connections_per_peer", "proxy.max_connections"),
)
"""Keys whose values must be at most those of others; 0 of these stands for no bound."""
_BOUNDS: tuple[tuple[str, str, Callable[[Any, Any], bool], str], ...] = (
    ("max_tokens_at_least", "max_tokens_at_most", operator.gt, "above"),
    ("priority_at_least", "priority_at_most", operator.gt, "above"),
    ("prompt_tokens_from", "prompt_tokens_below", operator.ge, "not below"),
)
"""Conditions of a rule that are a lower and an upper bound of the same, and how they stand where it never holds."""


def contradictions(config: Config, written: Collection[Path], wrong: Sequence[Path]) -> Iterator[Finding]:
    """Every contradiction, as the path of the key to change and what is wrong with it.

    `written`: the paths of all keys that some source sets. `wrong`: those of all mistakes that are told already.
    """
    yield from _listeners(config)
    yield from _pairs(config)
    yield from _limits(config)
    yield from _rules(config.lanes, wrong)
    yield from _twice(config)
    yield from _objectives(config, wrong)
    yield from _without_proxy(config, written)


def _without_proxy(config: Config, written: Collection[Path]) -> Iterator[Finding]:
    """Keys that act on traffic, beside the one that takes none."""
    if config.spans.without_proxy is not True:
        if config.lanes.span_attribute is not WRONG and config.lanes.span_attribute is not None:
            yield ("lanes", "span_attribute"), f"has no use without {_NO_PROXY}: headers name the lane of what passes"
        return
    for key, kind in KEYS.items():
        path = tuple(key.split("."))
        if path in written and (OF_TRAFFIC in kind.notes or OF_TRAFFIC in WHOLE_CONFIG.keys[path[0]].notes):
            yield path, f"has no use with {_NO_PROXY}: it acts on traffic"
    if config.spans.receive is False:
        yield ("spans", "receive"), f"is false, and with {_NO_PROXY} spans are all that is known"
    kind_name = config.engine.kind
    if kind_name is not WRONG and kind_name != AUTO and not kind_named(kind_name).spans_tell_requests:
        able = ", ".join(name for name, each in KINDS.items() if each.spans_tell_requests)
        yield ("engine", "kind"), f"is {kind_name}, whose spans do not state requests: {_NO_PROXY} works with {able}"
    yield from _not_in_spans(config)


def _not_in_spans(config: Config) -> Iterator[Finding]:
    """Conditions of lanes and objectives that no span can answer."""
    told = ", ".join(each for each in _OF_SPANS if each != "lane")
    for index, rule in enumerate(config.lanes.rules):
        for key in keys_of(LaneRule) if rule is not WRONG else ():
            if key not in _OF_SPANS and getattr(rule, key) is not None:
                yield ("lanes", "rules", index, key), f"never holds with {_NO_PROXY}: a span answers {told}"
    for lane, said in config.objectives.items():
        for key in ("stall", "encode_e2e"):
            if said is not WRONG and getattr(said, key) not in (None, UNSET):
                yield ("objectives", lane, key), f"has no use with {_NO_PROXY}: no span tells it"


def _listeners(config: Config) -> Iterator[Finding]:
    stated = {"proxy": config.proxy.listen_address, "web": config.web.listen_address}
    if config.spans.without_proxy is True:
        del stated["proxy"]
    listeners = {section: parse_address(text) for section, text in stated.items() if text is not WRONG}
    if len(listeners) == 2 and _overlap(*listeners.values()):
        text = f"overlaps proxy.listen_address ({stated['proxy']}): traffic and the admin side need a port each"
        yield ("web", "listen_address"), text
    url, grpc = config.engine.url, config.spans.grpc_listen_address
    for section, address in listeners.items():
        if url is not WRONG and not unix_path(url):
            engine = parse_engine_url(url)
            if engine.host in _LOOPBACK and _overlap(engine, address):
                yield ("engine", "url"), f"points at {section}.listen_address: the sidecar would call itself"
        if grpc and _overlap(parse_address(grpc), address):
            text = f"overlaps {section}.listen_address ({stated[section]}): it needs a port of its own"
            yield ("spans", "grpc_listen_address"), text


def _overlap(one: Address, other: Address) -> bool:
    if one.port != other.port or one.port == 0:
        return False
    same = one.host == other.host or (one.host in _LOOPBACK and other.host in _LOOPBACK)
    return same or one.host in _ANY_INTERFACE or other.host in _ANY_INTERFACE


def _pairs(config: Config) -> Iterator[Finding]:
    """Two keys of which one has no use beside the other, or a value that the other's does not allow."""
    engine, spans, lanes, form = config.engine, config.spans, config.lanes, config.web.native_histograms
    if engine.api_key and engine.api_key_file:
        yield ("engine", "api_key"), "is set beside engine.api_key_file: which of the two is the engine's key?"
    if config.metrics.profile == "lean" and form != "off":
        text = f"is {form}, and metrics.profile: lean shows no histogram: take one of them away"
        yield ("web", "native_histograms"), text
    if spans.receive is False:
        for key in ("grpc_listen_address", "forward_url"):
            if getattr(spans, key):
                yield ("spans", key), "has no use while spans.receive is false"
    if spans.export_url == "" and spans.export_untraced_ratio > 0:
        yield ("spans", "export_untraced_ratio"), "has no use without spans.export_url: no span would be sent"
    named_by = "span_attribute" if spans.without_proxy is True else "header"
    if lanes.names and getattr(lanes, named_by) is None:
        yield ("lanes", "names"), f"has no use without lanes.{named_by}: no request could reach these lanes"


def _limits(config: Config) -> Iterator[Finding]:
    lame_duck, grace = config.shutdown.lame_duck_seconds, config.shutdown.grace_seconds
    if lame_duck >= grace and lame_duck > 0:
        text = f"must be below shutdown.grace_seconds ({grace:.15g}): the grace includes the lame duck"
        yield ("shutdown", "lame_duck_seconds"), text
    for low, high in (tuple(tuple(key.split(".")) for key in pair) for pair in _AT_MOST):
        most = getattr(getattr(config, high[0]), high[1])
        if getattr(getattr(config, low[0]), low[1]) > most > 0:
            yield low, f"must be at most {'.'.join(high)} ({most:.15g})"


def _rules(lanes: LanesConfig, wrong: Sequence[Path]) -> Iterator[Finding]:
    seen: list[tuple[int, LaneRule]] = []
    for index, rule in enumerate(lanes.rules):
        here: Path = ("lanes", "rules", index)
        yield from _conditions(rule, here, lanes.api_keys)
        if any(path[: len(here)] == here for path in wrong):
            continue  # what the rule takes is not known before its mistake is mended
        if all(getattr(rule, key) is None for key in keys_of(LaneRule) if key != "lane"):
            text = "has no condition, so that it would take every request: lanes.default names the lane of the rest"
            yield here, text
            continue
        shadow = next((at for at, earlier in seen if takes_all_of(earlier, rule)), None)
        if shadow is not None:
            yield here, f"can never be reached: lanes.rules[{shadow}] already takes every request that it would"
        else:
            seen.append((index, rule))


def _conditions(rule: LaneRule, here: Path, declared: Mapping[str, object]) -> Iterator[Finding]:
    """Conditions of a rule that can never hold."""
    for at, name in enumerate(rule.api_keys or ()):
        if WRONG not in (declared, name) and name not in declared:
            near, allowed = did_you_mean(name, declared), ", ".join(sorted(declared)) or "none"
            text = f"names a key that lanes.api_keys does not declare{near}; declared: {allowed}"
            yield (*here, "api_keys", at), text
    for low, high, fails, relation in _BOUNDS:
        least, most = getattr(rule, low), getattr(rule, high)
        if least is not None and most is not None and fails(least, most):
            yield (*here, low), f"is {relation} {high} ({most}): the rule can never hold"


def takes_all_of(earlier: LaneRule, later: LaneRule) -> bool:
    """Whether `earlier` certainly holds for every request for which `later` holds.

    Each condition of `earlier` must follow from the same one of `later`; several earlier rules are not taken together.
    """
    for key in keys_of(LaneRule):
        condition, stated = getattr(earlier, key), getattr(later, key)
        if key == "lane" or condition is None:
            continue
        follows: Callable[[Any, Any], bool] = _FOLLOWS.get(key, operator.eq)
        if stated is None or not follows(stated, condition):
            return False
    return True


def _patterns(stated: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether every text that matches one of `stated` matches one of `wanted`."""
    return all(any(_narrower(one, other) for other in wanted) for one in stated)


def _narrower(one: str, other: str) -> bool:
    """A `*` at the end of a pattern matches any rest; without it only the whole text matches."""
    return one.removesuffix("*").startswith(other[:-1]) if other.endswith("*") else one == other


def _headers(stated: Mapping[str, Iterable[str]], wanted: Mapping[str, Iterable[str]]) -> bool:
    return all(name in stated and _patterns(stated[name], values) for name, values in wanted.items())


def _among(stated: Iterable[str], wanted: Iterable[str]) -> bool:
    return set(stated) <= set(wanted)


_FOLLOWS: Mapping[str, Callable[[Any, Any], bool]] = {
    "headers": _headers,
    "paths": _patterns,
    "models": _patterns,
    "api_keys": _among,
    "service_tiers": _among,
    "max_tokens_at_least": operator.ge,
    "max_tokens_at_most": operator.le,
    "prompt_tokens_from": operator.ge,
    "prompt_tokens_below": operator.le,
    "priority_at_least": operator.ge,
    "priority_at_most": operator.le,
}
"""Condition to whether what a later rule states (first) implies what an earlier rule wants. Any other must be equal."""


def _twice(config: Config) -> Iterator[Finding]:
    """Models and API keys that stand twice."""
    owners: dict[str, str] = {}
    for name, digests in config.lanes.api_keys.items():
        for digest in (each for each in digests if each is not WRONG):
            if owners.setdefault(digest, name) != name:
                yield ("lanes", "api_keys", name), f"is the same key as {owners[digest]}"
    models = config.engine.models
    for index, model in enumerate(models):
        if model in models[:index]:
            yield ("engine", "models", index), "stands twice"


def _objectives(config: Config, wrong: Sequence[Path]) -> Iterator[Finding]:
    declared, models = declared_lanes(config.lanes), [name for name in config.engine.models if name is not WRONG]
    size = model_size(config.engine.model_size_billions, models)
    edges = config.prompt_buckets.edges if WRONG not in config.prompt_buckets.edges else ()
    labels = (*bucket_labels(edges), UNKNOWN) if edges else ()
    for lane, said in config.objectives.items():
        here: Path = ("objectives", lane)
        if lane == OTHER:
            yield (*here, KEY_MARK), "cannot have objectives: it holds the requests whose lane is not declared"
            continue
        if said.blame_shares:
            yield from _shares((*here, "blame_shares"), astuple(said.blame_shares))
        for label in filterfalse(labels.__contains__, said.prompt_buckets) if edges else ():
            near, made = did_you_mean(label, labels), ", ".join(labels)
            text = f"is no bucket that prompt_buckets.edges make{near}; they make: {made}"
            yield (*here, "prompt_buckets", label, KEY_MARK), text
        if WRONG not in declared and lane not in declared:
            allowed = ", ".join(declared)
            yield (*here, KEY_MARK), f"is no declared lane{did_you_mean(lane, declared)}; declared: {allowed}"
            if said.preset is None:
                continue  # which preset a lane has by its name is not known before its name is mended
        for objective in Objective if edges else ():
            deciding = [(*here, key) for key in _keys_of(objective)]
            deciding += [(*here, "prompt_buckets", label, objective.value) for label in labels]
            if not any(_within(path, each) or _within(each, path) for path in deciding for each in wrong):
                yield from _objective_findings(here, objective, said, edges, size)


def _shares(here: Path, shares: Sequence[float]) -> Iterator[Finding]:
    if WRONG not in shares and not math.isclose(total := math.fsum(shares), 1.0, abs_tol=1e-6):
        yield here, f"add up to {total:.6g}, and must add up to 1"


def _within(path: Path, whole: Path) -> bool:
    return path[: len(whole)] == whole


def _keys_of(objective: Objective) -> tuple[str, ...]:
    """The lane's keys that decide an objective's thresholds: e2e is stretched by as much as TTFT is."""
    return ("preset", "ttft", "e2e") if objective is Objective.E2E else ("preset", objective.value)


def declared_lanes(lanes: LanesConfig) -> list[str]:
    """Every lane that objectives may name, with WRONG among them while one is not known."""
    wrong = [each for each in (lanes.rules, lanes.names) if each is WRONG]
    return list(dict.fromkeys([*(rule.lane for rule in lanes.rules), *lanes.names, lanes.default, *wrong]))


def _objective_findings(
    here: Path, objective: Objective, said: LaneObjectivesConfig, edges: Sequence[int], size: ModelSize | None
) -> Iterator[Finding]:
    """Findings on one objective of one lane with values that are each right in themselves."""
    lane, key = str(here[1]), objective.value
    whole = lane_objective(objective, lane, said, size)
    if (whole.threshold_seconds is None) != (whole.target is None):
        missing = "target" if whole.target is None else "threshold_seconds"
        yield (*here, key), f"has no {missing}, and the lane's preset ({preset_name(lane, said)}) sets none"
        return
    shorter, least_seconds = "", 0.0
    for label, setting in bucket_objectives(objective, lane, said, edges, size).items():
        path: Path = (*here, "prompt_buckets", label, key)
        if (setting.threshold_seconds is None) != (setting.target is None):
            missing = "target" if setting.target is None else "threshold_seconds"
            yield path, f"has no {missing}, and neither the lane nor its preset sets one"
        elif setting.threshold_seconds is not None and label != UNKNOWN:
            if setting.threshold_seconds < least_seconds:
                text = f"is below the {least_seconds:g} of {shorter}: longer prompts cannot have less time"
                yield (*path, "threshold_seconds"), text
            else:
                shorter, least_seconds = label, setting.threshold_seconds
