"""The lane of a request: the configured rules, compiled once, give a name out of a closed set.

Knows the path, the header fields, the values read from the body and the hash of the client's key. Refuses to make a
lane out of client text: a name outside the declared set is `other`. A condition on a value that the request does not
state does not hold; the value is never taken as zero, false or empty.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence

from sidecar.classify.found import Peek
from sidecar.config.schema import LaneRule, LanesConfig
from sidecar.ledger.request_labels import OTHER


Headers = Mapping[bytes, Sequence[bytes]]
"""The values of each field as received, by its name in lower case."""
_Condition = Callable[[bytes, Headers, Peek, str | None, float | None], bool]
"""Holds for a request or not, by the path, the header fields, the values of the body, the hash of the key, and the tokens of the prompt."""

_LONGEST_PATTERN_BYTES = 1024
"""The bound on patterns in `config/values.py`. A longer value can only match a prefix, so the rest of it is not
read."""
_OPTIONAL_WHITESPACE = b" \t"
"""RFC 9110 5.6.3: white space around a field value, which is not part of it."""


class LaneRules:
    """The rules of one configuration, compiled. Immutable, so a reload swaps the whole object."""

    def __init__(self, config: LanesConfig) -> None:
        """Compile the rules; a rule that names an undeclared API key never matches (the config's check refuses it)."""
        self.lanes = config.declared
        """The closed set: every name that `lane_of` can return."""
        self.needs_api_key = any(rule.api_keys is not None for rule in config.rules)
        """Whether `lane_of` needs the hash of the key; if not, pass None and do not compute it."""
        self.needs_length = any(rule.prompt_tokens_from or rule.prompt_tokens_below for rule in config.rules)
        """Whether the lane may depend on the length of the prompt."""
        self._default = config.default
        self.span_attribute = config.span_attribute
        """The attribute that names the lane where requests are known from spans alone: it then stands among the headers."""
        named_by = config.header if config.span_attribute is None else config.span_attribute
        self._lane_header = named_by.encode() if named_by is not None else None
        self._by_value = {lane.encode(): lane for lane in self.lanes}
        self._rules = [(rule.lane, _conditions(rule, config)) for rule in config.rules]

    def lane_of(
        self,
        path: bytes,
        headers: Headers,
        peek: Peek,
        api_key_sha256: str | None,
        prompt_tokens: float | None = None,
    ) -> str:
        """The lane in the lane header if there is one, else of the first rule that holds, else the default.

        `path` is the request's target as received (a query is ignored), `headers` the values of its fields,
        `api_key_sha256` the result of `hash_api_key` (64 lower-case hex digits, or None), `prompt_tokens` the length of the prompt as it is
        counted or estimated. Never raises.
        """
        if self._lane_header is not None:
            stated = headers.get(self._lane_header)
            if stated is not None:
                # Two different names are `other`: a hop may have added its own name to the client's.
                one = len(stated) == 1 or len(set(_stripped(stated))) == 1
                return self._by_value.get(stated[0].strip(_OPTIONAL_WHITESPACE), OTHER) if one else OTHER
        path = path.partition(b"?")[0]
        for lane, conditions in self._rules:
            if all(holds(path, headers, peek, api_key_sha256, prompt_tokens) for holds in conditions):
                return lane
        return self._default


def hash_api_key(headers: Headers) -> str | None:
    """The SHA-256 (lower-case hex) of the key in `Authorization: Bearer KEY`, else in `x-api-key`; None without a key.

    Two different keys in one request give None, because it is not known which of them the engine would use.
    """
    keys: set[bytes] = set()
    for value in _stripped(headers.get(b"authorization", ())):
        scheme, _, key = value.partition(b" ")
        if scheme.lower() == b"bearer" and key.strip(_OPTIONAL_WHITESPACE):
            keys.add(key.strip(_OPTIONAL_WHITESPACE))
    keys = keys or {value for value in _stripped(headers.get(b"x-api-key", ())) if value}
    return hashlib.sha256(keys.pop()).hexdigest() if len(keys) == 1 else None


def _stripped(values: Sequence[bytes]) -> list[bytes]:
    return [value.strip(_OPTIONAL_WHITESPACE) for value in values]


def _conditions(rule: LaneRule, config: LanesConfig) -> tuple[_Condition, ...]:
    """One function for each condition that the rule states, the cheapest first."""
    conditions: list[_Condition] = []
    if rule.streaming is not None:
        conditions.append(_streaming(rule.streaming))
    if rule.max_tokens_at_least is not None or rule.max_tokens_at_most is not None:
        tokens = _within(rule.max_tokens_at_least, rule.max_tokens_at_most)
        conditions.append(lambda _path, _headers, peek, _key, _tokens: tokens(peek.max_tokens))
    if rule.prompt_tokens_from is not None or rule.prompt_tokens_below is not None:
        conditions.append(_length(rule.prompt_tokens_from, rule.prompt_tokens_below))
    if rule.priority_at_least is not None or rule.priority_at_most is not None:
        priority = _within(rule.priority_at_least, rule.priority_at_most)
        conditions.append(lambda _path, _headers, peek, _key, _tokens: priority(peek.priority))
    if rule.service_tiers is not None:
        tiers = frozenset(rule.service_tiers)
        conditions.append(lambda _path, _headers, peek, _key, _tokens: peek.service_tier in tiers)
    if rule.api_keys is not None:
        hashes = frozenset(h for name in rule.api_keys for h in config.api_keys.get(name, ()))
        conditions.append(lambda _path, _headers, _peek, key, _tokens: key in hashes)
    if rule.models is not None:
        conditions.append(_model(_Patterns(rule.models)))
    if rule.paths is not None:
        paths = _Patterns(rule.paths)
        conditions.append(lambda path, _headers, _peek, _key, _tokens: paths.match(path))
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
    def holds(_path: bytes, _headers: Headers, peek: Peek, _key: str | None, _tokens: float | None) -> bool:
        # Every API's default is not to stream; but only a body that was read whole is known not to ask for it.
        said = peek.stream if peek.stream is not None or not peek.whole else False
        return said is wanted

    return holds


def _within(low: int | None, high: int | None) -> Callable[[int | None], bool]:
    return lambda value: value is not None and (low is None or value >= low) and (high is None or value <= high)


def _length(start: int | None, below: int | None) -> _Condition:
    def holds(_path: bytes, _headers: Headers, _peek: Peek, _key: str | None, tokens: float | None) -> bool:
        return tokens is not None and (start is None or tokens >= start) and (below is None or tokens < below)

    return holds


def _model(patterns: _Patterns) -> _Condition:
    def holds(_path: bytes, _headers: Headers, peek: Peek, _key: str | None, _tokens: float | None) -> bool:
        if peek.model is None:
            return False
        # One character more than the longest pattern is enough to tell "equal" from "has the same beginning".
        return patterns.match(peek.model[: _LONGEST_PATTERN_BYTES + 1].encode("utf-8", "surrogatepass"))

    return holds


def _header(lower_name: bytes, patterns: _Patterns) -> _Condition:
    return lambda _path, headers, _peek, _key, _tokens: any(
        patterns.match(value) for value in _stripped(headers.get(lower_name, ()))
    )
