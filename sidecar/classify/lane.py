"""Which lane a request belongs to: the configured rules, compiled once, and a name out of a closed set.

Knows the path, the header fields, what the look at the body found and the hash of the client's key. Refuses to let anything a
client sends become a lane: what is outside the declared set is `other`. A condition about something the request does not
say does not hold; it is never taken for zero, false or empty.
"""

import hashlib
from collections.abc import Callable, Sequence

from sidecar.classify.body import Look
from sidecar.config.schema import LaneRule, LanesConfig
from sidecar.config.values import OTHER


Headers = Sequence[tuple[bytes, bytes]]
_Condition = Callable[[bytes, Headers, Look, str | None], bool]

_LONGEST_PATTERN_BYTES = 1024
"""As `config_values` bounds patterns; a longer value can only match a prefix, so no more of it is ever looked at."""
_OPTIONAL_WHITESPACE = b" \t"
"""RFC 9110 5.6.3: what may stand around a field value and is no part of it."""


class LaneRules:
    """The rules of one configuration, compiled. Immutable, so a reload swaps the whole object."""

    def __init__(self, config: LanesConfig) -> None:
        """Compile the rules; a rule that names an undeclared API key never matches (the config's check refuses it)."""
        self.lanes = config.declared
        """The closed set: every name that `lane_of` can return."""
        self.needs_api_key = any(rule.api_keys is not None for rule in config.rules)
        """Whether `lane_of` wants the key's hash; if not, pass None and hash nothing."""
        self._default = config.default
        self._lane_header = config.header.encode() if config.header is not None else None
        self._by_value = {lane.encode(): lane for lane in self.lanes}
        self._rules = [(rule.lane, _conditions(rule, config)) for rule in config.rules]

    def lane_of(self, path: bytes, headers: Headers, look: Look, api_key_sha256: str | None) -> str:
        """The lane: named by the lane header if there is one, else by the first rule that holds, else the default.

        `path` is the request's target as received (a query is ignored), `headers` in the client's case and order,
        `api_key_sha256` what `hash_api_key` gave (64 lower-case hex digits) or None. Never raises.
        """
        if self._lane_header is not None:
            values = _values(headers, self._lane_header)
            if values:
                # Two different names are one too many to believe: a hop may have appended its own to a client's.
                return self._by_value.get(values[0], OTHER) if len(set(values)) == 1 else OTHER
        path = path.partition(b"?")[0]
        for lane, conditions in self._rules:
            if all(holds(path, headers, look, api_key_sha256) for holds in conditions):
                return lane
        return self._default


def hash_api_key(headers: Headers) -> str | None:
    """The SHA-256 (lower-case hex) of the client's key: of `Authorization: Bearer KEY`, else of `x-api-key`; None without one.

    Two different keys in one request are no key: which of them the engine would believe is not known here.
    """
    keys: set[bytes] = set()
    for value in _values(headers, b"authorization"):
        scheme, _, key = value.partition(b" ")
        if scheme.lower() == b"bearer" and key.strip(_OPTIONAL_WHITESPACE):
            keys.add(key.strip(_OPTIONAL_WHITESPACE))
    keys = keys or {value for value in _values(headers, b"x-api-key") if value}
    return hashlib.sha256(keys.pop()).hexdigest() if len(keys) == 1 else None


def _values(headers: Headers, lower_name: bytes) -> list[bytes]:
    """Every value of one field. The length is compared first: it is what makes this cheap."""
    size, values = len(lower_name), []
    for name, value in headers:
        if len(name) == size and name.lower() == lower_name:
            values.append(value.strip(_OPTIONAL_WHITESPACE))
    return values


def _conditions(rule: LaneRule, config: LanesConfig) -> tuple[_Condition, ...]:
    """One function for each condition that the rule states, the cheapest first."""
    conditions: list[_Condition] = []
    if rule.streaming is not None:
        conditions.append(_streaming(rule.streaming))
    if rule.max_tokens_at_least is not None or rule.max_tokens_at_most is not None:
        conditions.append(_max_tokens(rule.max_tokens_at_least, rule.max_tokens_at_most))
    if rule.priority_at_least is not None or rule.priority_at_most is not None:
        conditions.append(_priority(rule.priority_at_least, rule.priority_at_most))
    if rule.service_tiers is not None:
        conditions.append(_service_tier(frozenset(rule.service_tiers)))
    if rule.api_keys is not None:
        conditions.append(_api_key(frozenset(h for name in rule.api_keys for h in config.api_keys.get(name, ()))))
    if rule.models is not None:
        conditions.append(_model(_Patterns(rule.models)))
    if rule.paths is not None:
        conditions.append(_path(_Patterns(rule.paths)))
    conditions.extend(
        _header(name.encode().lower(), _Patterns(values)) for name, values in (rule.headers or {}).items()
    )
    return tuple(conditions)


class _Patterns:
    """Exact texts and prefixes (a `*` at the end), compared as bytes so that no encoding can fail."""

    def __init__(self, patterns: Sequence[str]) -> None:
        encoded = [pattern.encode("utf-8", "surrogateescape") for pattern in patterns]
        self._exact = frozenset(pattern for pattern in encoded if not pattern.endswith(b"*"))
        self._prefixes = tuple(pattern[:-1] for pattern in encoded if pattern.endswith(b"*"))

    def match(self, value: bytes) -> bool:
        return (len(value) <= _LONGEST_PATTERN_BYTES and value in self._exact) or value.startswith(self._prefixes)


def _streaming(wanted: bool) -> _Condition:
    def holds(_path: bytes, _headers: Headers, look: Look, _key: str | None) -> bool:
        # Every API's default is not to stream, but only a body that was read whole can be said not to ask for it.
        said = look.stream if look.stream is not None or not look.whole else False
        return said is wanted

    return holds


def _within(value: int | None, low: int | None, high: int | None) -> bool:
    return value is not None and (low is None or value >= low) and (high is None or value <= high)


def _max_tokens(low: int | None, high: int | None) -> _Condition:
    return lambda _path, _headers, look, _key: _within(look.max_tokens, low, high)


def _priority(low: int | None, high: int | None) -> _Condition:
    return lambda _path, _headers, look, _key: _within(look.priority, low, high)


def _service_tier(tiers: frozenset[str]) -> _Condition:
    return lambda _path, _headers, look, _key: look.service_tier in tiers


def _api_key(hashes: frozenset[str]) -> _Condition:
    return lambda _path, _headers, _look, key: key in hashes


def _model(patterns: _Patterns) -> _Condition:
    def holds(_path: bytes, _headers: Headers, look: Look, _key: str | None) -> bool:
        if look.model is None:
            return False
        # One byte more than the longest pattern tells "equal" from "only begins alike" as well as the whole does.
        return patterns.match(look.model[: _LONGEST_PATTERN_BYTES + 1].encode("utf-8", "surrogatepass"))

    return holds


def _path(patterns: _Patterns) -> _Condition:
    return lambda path, _headers, _look, _key: patterns.match(path)


def _header(lower_name: bytes, patterns: _Patterns) -> _Condition:
    return lambda _path, headers, _look, _key: any(patterns.match(value) for value in _values(headers, lower_name))
