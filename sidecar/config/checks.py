"""Checks keys against each other, for contradictions that no single value shows.

Works on the values as written, and only on those that are right in themselves, so that one wrong key never hides what
is wrong with the others. Pure.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from sidecar.config.buckets import bucket_labels
from sidecar.config.model_size import ModelSize, model_size
from sidecar.config.objectives import bucket_objectives, lane_objective, preset_name
from sidecar.config.schema import OF_TRAFFIC, LaneObjectivesConfig, LaneRule
from sidecar.config.section import KEY_MARK, Path
from sidecar.config.suggest import did_you_mean
from sidecar.config.values import Address, as_seconds, parse_address, parse_engine_url
from sidecar.engines.engine import AUTO
from sidecar.engines.kinds import KINDS, kind_named
from sidecar.engines.probe.where import unix_path
from sidecar.ledger.request_labels import OTHER, UNKNOWN
from sidecar.objectives.objective import Objective


Known = Callable[[Path], object]
"""The value at a path (its default where unsaid), or WRONG where it, or something in it, is wrong in itself."""
WRONG: Final = object()
Finding = tuple[Path, str]

_ANY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104  compared with, not bound
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def contradictions(known: Known) -> Iterator[Finding]:
    """Every contradiction, as the path of the key to change and what is wrong with it."""
    for check in (
        *(_listeners, _engine_key, _spans, _page, _limits, _lanes, _rules, _keys, _models, _objectives),
        _without_proxy,
    ):
        yield from check(known)


def _without_proxy(known: Known) -> Iterator[Finding]:
    """Keys that act on traffic, beside the one that takes none."""
    if known(("spans", "without_proxy")) is not True:
        if known(("lanes", "span_attribute")) not in (None, WRONG):
            yield ("lanes", "span_attribute"), f"has no use without {_NO_PROXY}: headers name the lane of what passes"
        return
    for section, keys in OF_TRAFFIC.items():
        for key in _mapping(known((section,))):
            if not keys or key in keys:
                yield (section, key), f"has no use with {_NO_PROXY}: it acts on traffic"
    if known(("spans", "receive")) is False:
        yield ("spans", "receive"), f"is false, and with {_NO_PROXY} spans are all that is known"
    kind = known(("engine", "kind"))
    if isinstance(kind, str) and kind != AUTO and not kind_named(kind).spans_tell_requests:
        able = ", ".join(name for name, each in KINDS.items() if each.spans_tell_requests)
        yield ("engine", "kind"), f"is {kind}, whose spans do not state requests: {_NO_PROXY} works with {able}"
    yield from _not_in_spans(known)


def _not_in_spans(known: Known) -> Iterator[Finding]:
    """Conditions of lanes and objectives that no span can answer."""
    told = ", ".join(each for each in _OF_SPANS if each != "lane")
    for index, rule in enumerate(_several(known(("lanes", "rules")))):
        for key in _mapping(rule):
            if key not in _OF_SPANS:
                yield ("lanes", "rules", index, key), f"never holds with {_NO_PROXY}: a span answers {told}"
    for lane, said in _mapping(known(("objectives",))).items():
        for key in ("stall", "encode_e2e"):
            if _mapping(said).get(key) not in (None, "none"):
                yield ("objectives", lane, key), f"has no use with {_NO_PROXY}: no span tells it"


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


_NO_PROXY = "spans.without_proxy (--no-proxy)"
_OF_SPANS = ("lane", "models", "max_tokens_at_least", "max_tokens_at_most", "prompt_tokens_from", "prompt_tokens_below")
"""Keys of a lane's rule that a span can answer."""


def _listeners(known: Known) -> Iterator[Finding]:
    listeners: dict[str, Address] = {}
    for section in ("web",) if known(("spans", "without_proxy")) is True else ("proxy", "web"):
        text = known((section, "listen_address"))
        if isinstance(text, str):
            listeners[section] = parse_address(text)
    if len(listeners) == 2 and _overlap(listeners["proxy"], listeners["web"]):
        traffic = known(("proxy", "listen_address"))
        text = f"overlaps proxy.listen_address ({traffic}): traffic and the admin side need a port each"
        yield ("web", "listen_address"), text
    url = known(("engine", "url"))
    if isinstance(url, str) and not unix_path(url):
        engine = parse_engine_url(url)
        for section, address in listeners.items():
            if engine.host in _LOOPBACK and _overlap(engine, address):
                yield ("engine", "url"), f"points at {section}.listen_address: the sidecar would call itself"


def _engine_key(known: Known) -> Iterator[Finding]:
    stated = [known(("engine", name)) for name in ("api_key", "api_key_file")]
    if all(isinstance(one, str) and one for one in stated):
        yield ("engine", "api_key"), "is set beside engine.api_key_file: which of the two is the engine's key?"


def _page(known: Known) -> Iterator[Finding]:
    form = known(("web", "native_histograms"))
    if known(("metrics", "profile")) == "lean" and form not in ("off", WRONG):
        yield (
            ("web", "native_histograms"),
            f"is {form}, and metrics.profile: lean shows no histogram: take one of them away",
        )


def _spans(known: Known) -> Iterator[Finding]:
    grpc = known(("spans", "grpc_listen_address"))
    if isinstance(grpc, str) and grpc:
        for section in ("web",) if known(("spans", "without_proxy")) is True else ("proxy", "web"):
            text = known((section, "listen_address"))
            if isinstance(text, str) and _overlap(parse_address(grpc), parse_address(text)):
                yield (
                    ("spans", "grpc_listen_address"),
                    f"overlaps {section}.listen_address ({text}): it needs a port of its own",
                )
    if known(("spans", "receive")) is False:
        for key in ("grpc_listen_address", "forward_url"):
            if known(("spans", key)) not in ("", WRONG):
                yield ("spans", key), "has no use while spans.receive is false"
    if known(("spans", "export_url")) == "" and known(("spans", "export_untraced_ratio")) not in (0, WRONG):
        yield ("spans", "export_untraced_ratio"), "has no use without spans.export_url: no span would be sent"


def _overlap(one: Address, other: Address) -> bool:
    if one.port != other.port or one.port == 0:
        return False
    same = one.host == other.host or (one.host in _LOOPBACK and other.host in _LOOPBACK)
    return same or one.host in _ANY_INTERFACE or other.host in _ANY_INTERFACE


def _limits(known: Known) -> Iterator[Finding]:
    lame_duck, grace = (as_seconds(known(("shutdown", key))) for key in ("lame_duck_seconds", "grace_seconds"))
    if _number(lame_duck) and _number(grace) and lame_duck >= grace and lame_duck > 0:
        text = f"must be below shutdown.grace_seconds ({grace}): the grace includes the lame duck"
        yield ("shutdown", "lame_duck_seconds"), text
    look, body = known(("proxy", "look_in_bytes")), known(("proxy", "max_body_bytes"))
    if _number(look) and _number(body) and look > body:
        yield ("proxy", "look_in_bytes"), f"must be at most proxy.max_body_bytes ({body})"
    idle, total = (as_seconds(known(("proxy", f"tunnel_{each}_timeout_seconds"))) for each in ("idle", "total"))
    if _number(idle) and _number(total) and idle > total:
        text = f"must be at most proxy.tunnel_total_timeout_seconds ({total})"
        yield ("proxy", "tunnel_idle_timeout_seconds"), text
    share, most = known(("proxy", "max_connections_per_peer")), known(("proxy", "max_connections"))
    if _number(share) and _number(most) and share > most > 0:
        yield ("proxy", "max_connections_per_peer"), f"must be at most proxy.max_connections ({most})"


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lanes(known: Known) -> Iterator[Finding]:
    named_by = "span_attribute" if known(("spans", "without_proxy")) is True else "header"
    if _several(known(("lanes", "names"))) and known(("lanes", named_by)) is None:
        yield ("lanes", "names"), f"has no use without lanes.{named_by}: no request could reach these lanes"


def _rules(known: Known) -> Iterator[Finding]:
    declared = known(("lanes", "api_keys"))
    seen: list[tuple[int, LaneRule]] = []
    for index, rule in enumerate(_several(known(("lanes", "rules")))):
        here: Path = ("lanes", "rules", index)
        if not isinstance(rule, dict):
            continue
        if isinstance(declared, Mapping):
            yield from _undeclared_keys(here, rule, declared)
        for name in ("max_tokens", "priority"):
            low, high = rule.get(f"{name}_at_least"), rule.get(f"{name}_at_most")
            if _number(low) and _number(high) and low > high:
                yield (*here, f"{name}_at_least"), f"is above {name}_at_most ({high}): the rule can never hold"
        start, below = rule.get("prompt_tokens_from"), rule.get("prompt_tokens_below")
        if _number(start) and _number(below) and start >= below:
            yield (*here, "prompt_tokens_from"), f"is not below prompt_tokens_below ({below}): the rule can never hold"
        yield from _headers_twice(here, rule)
        if known(here) is WRONG:
            continue  # what the rule takes is not known before its mistake is mended
        read = LaneRule.model_validate(rule)
        if all(getattr(read, key) is None for key in LaneRule.model_fields if key != "lane"):
            yield (
                here,
                "has no condition, so that it would take every request: lanes.default names the lane of the rest",
            )
            continue
        shadow = next((at for at, earlier in seen if takes_all_of(earlier, read)), None)
        if shadow is not None:
            yield here, f"can never be reached: lanes.rules[{shadow}] already takes every request that it would"
        else:
            seen.append((index, read))


def takes_all_of(earlier: LaneRule, later: LaneRule) -> bool:
    """Whether `earlier` certainly holds for every request for which `later` holds.

    Each condition of `earlier` must follow from the same one of `later`; several earlier rules are not taken together.
    """
    for key in LaneRule.model_fields:
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


def _undeclared_keys(here: Path, rule: Mapping[str, object], declared: Mapping[str, object]) -> Iterator[Finding]:
    for at, name in enumerate(_several(rule.get("api_keys"))):
        if isinstance(name, str) and name not in declared:
            allowed = ", ".join(sorted(declared)) or "none"
            text = (
                f"names a key that lanes.api_keys does not declare{did_you_mean(name, declared)}; declared: {allowed}"
            )
            yield (*here, "api_keys", at), text


def _headers_twice(here: Path, rule: Mapping[str, object]) -> Iterator[Finding]:
    headers = rule.get("headers")
    seen: set[str] = set()
    for name in headers if isinstance(headers, dict) else ():
        if name.lower() in seen:
            yield (*here, "headers", name), "stands twice: header names have no case"
        seen.add(name.lower())


def _keys(known: Known) -> Iterator[Finding]:
    owners: dict[str, str] = {}
    declared = known(("lanes", "api_keys"))
    for name, hashes in declared.items() if isinstance(declared, Mapping) else ():
        for digest in _several(hashes):
            if isinstance(digest, str) and owners.setdefault(digest.lower(), name) != name:
                yield ("lanes", "api_keys", name), f"is the same key as {owners[digest.lower()]}"


def _models(known: Known) -> Iterator[Finding]:
    seen: set[object] = set()
    for index, name in enumerate(_several(known(("engine", "models")))):
        if name in seen:
            yield ("engine", "models", index), "stands twice"
        seen.add(name)


def _objectives(known: Known) -> Iterator[Finding]:
    said = known(("objectives",))
    declared = declared_lanes(known)
    edges = [edge for edge in _several(known(("prompt_buckets", "edges"))) if isinstance(edge, int)]
    size = _size(known)
    for lane, keys in said.items() if isinstance(said, Mapping) else ():
        here: Path = ("objectives", lane)
        value = keys if isinstance(keys, Mapping) else {}
        if lane == OTHER:
            yield (*here, KEY_MARK), "cannot have objectives: it holds the requests whose lane is not declared"
            continue
        yield from _shares(known, (*here, "blame_shares"))
        if edges:
            yield from _bucket_names(here, value, edges)
        if declared is not None and lane not in declared:
            allowed = ", ".join(declared)
            yield (*here, KEY_MARK), f"is no declared lane{did_you_mean(lane, declared)}; declared: {allowed}"
            if value.get("preset") is None:
                continue  # which preset a lane has by its name is not known before its name is mended
        for objective in Objective if edges else ():
            if _readable(known, here, objective, edges):
                yield from _objective_findings(here, objective, value, edges, size)


def _size(known: Known) -> ModelSize | None:
    stated = known(("engine", "model_size_billions"))
    models = [name for name in _several(known(("engine", "models"))) if isinstance(name, str)]
    return model_size(stated if _number(stated) else None, models)


def _bucket_names(here: Path, value: Mapping[str, object], edges: Sequence[int]) -> Iterator[Finding]:
    buckets, labels = value.get("prompt_buckets"), (*bucket_labels(edges), UNKNOWN)
    for label in buckets if isinstance(buckets, Mapping) else ():
        if label not in labels:
            made = ", ".join(labels)
            text = f"is no bucket that prompt_buckets.edges make{did_you_mean(label, labels)}; they make: {made}"
            yield (*here, "prompt_buckets", label, KEY_MARK), text


def _readable(known: Known, here: Path, objective: Objective, edges: Sequence[int]) -> bool:
    """Whether all that decides an objective's thresholds is right in itself."""
    read: list[Path] = [(*here, key) for key in _keys_of(objective)]
    read += [(*here, "prompt_buckets", label, objective.value) for label in (*bucket_labels(edges), UNKNOWN)]
    return all(known(path) is not WRONG for path in read)


def _keys_of(objective: Objective) -> tuple[str, ...]:
    """The lane's keys that decide an objective's thresholds: e2e is stretched by as much as TTFT is."""
    return ("preset", "ttft", "e2e") if objective is Objective.E2E else ("preset", objective.value)


def declared_lanes(known: Known) -> list[str] | None:
    """Every lane that objectives may name, or None while one of the lanes is not known for sure."""
    rules = _several(known(("lanes", "rules")))
    named = [rule.get("lane") if isinstance(rule, Mapping) else None for rule in rules]
    named += [*_several(known(("lanes", "names"))), known(("lanes", "default"))]
    if WRONG in (known(("lanes", "rules")), known(("lanes", "names"))):
        return None
    lanes = [name for name in named if isinstance(name, str)]
    return list(dict.fromkeys(lanes)) if len(lanes) == len(named) else None


def _shares(known: Known, here: Path) -> Iterator[Finding]:
    shares = known(here)
    if isinstance(shares, Mapping):
        total = math.fsum(share for share in shares.values() if _number(share))
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            yield here, f"add up to {total:.6g}, and must add up to 1"


def _objective_findings(
    here: Path, objective: Objective, value: Mapping[str, object], edges: Sequence[int], size: ModelSize | None
) -> Iterator[Finding]:
    """Findings on one objective of one lane with values that are each right in themselves."""
    lane, key = str(here[1]), objective.value
    said = _alone(value, objective, (*bucket_labels(edges), UNKNOWN))
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


def _alone(value: Mapping[str, object], objective: Objective, labels: Sequence[str]) -> LaneObjectivesConfig:
    """The lane's keys on one objective only, so that a wrong value of another objective does not matter."""
    kept: dict[str, object] = {key: value[key] for key in _keys_of(objective) if key in value}
    buckets = value.get("prompt_buckets")
    kept["prompt_buckets"] = {
        label: {key: part for key, part in bucket.items() if key == objective.value}
        for label, bucket in (buckets.items() if isinstance(buckets, Mapping) else ())
        if label in labels and isinstance(bucket, Mapping)
    }
    return LaneObjectivesConfig.model_validate(kept)


def _several(value: object) -> list[object]:
    """A list as it is, one scalar as a list of one, nothing as none."""
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value is None or value is WRONG else [value]
