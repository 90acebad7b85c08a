"""The page in Prometheus' protobuf format: the only one with native histograms (client_model 0.6, metrics.proto).

One delimited `io.prometheus.client.MetricFamily` follows the other. What does not change is kept as bytes: heads, labels,
exemplars, and a whole child until its number changes. A family's length stands before it, so that a large family is encoded
in slices first, and written then. Knows fields and their numbers; refuses to know HTTP, and who asks.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, islice
from operator import attrgetter
from struct import Struct
from typing import Any

from prometheus_client import CollectorRegistry

from sidecar.metrics.children import CounterChild, Exemplar, GaugeChild, HistogramChild
from sidecar.metrics.declaration import Metric
from sidecar.metrics.native_buckets import MOST_BUCKETS, ZERO_THRESHOLD, NativeBuckets
from sidecar.metrics.registry import Family, Metrics


ENCODED_BYTES = 4_096
"""A slice of work ends once it has encoded so many bytes: one of small histograms then takes some 0.2 ms."""
MOST_WRITTEN = 4096
"""Numbers whose bytes are kept; others are written each time."""
NUMBERS_AT_ONCE = 32
"""Counters or gauges between two looks at the size of the slice."""

_COUNTER, _GAUGE, _HISTOGRAM = 0, 1, 4
"""MetricType."""
_TYPES = {"counter": _COUNTER, "gauge": _GAUGE, "info": _GAUGE, "histogram": _HISTOGRAM}
_NUMBER_FIELDS = {_COUNTER: b"\x1a\x09\x09", _GAUGE: b"\x12\x09\x09"}
"""Field of Metric for a counter or a gauge, 9 bytes long, whose field 1 is a double."""
_double = Struct("<d").pack
_value = attrgetter("value")


class _Written(dict[int, bytes]):
    """Numbers as bytes, each written on first use."""

    def __init__(self, write: Callable[[int], bytes]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, number: int) -> bytes:
        written = self._write(number)
        if len(self) < MOST_WRITTEN:
            self[number] = written
        return written


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


VARINTS = _Written(_varint)
ZIGZAGS = _Written(lambda number: _varint(number << 1 if number >= 0 else (-number << 1) - 1))
"""Signed numbers: sint32 and sint64."""


def _message(tag: bytes, content: bytes) -> bytes:
    return tag + VARINTS[len(content)] + content


def _labels(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(_message(b"\x0a", _text(b"\x0a", name) + _text(b"\x12", value)) for name, value in pairs)


def _text(tag: bytes, text: str) -> bytes:
    return _message(tag, text.encode("utf-8", "replace"))


def _head(name: str, help_text: str, kind: int) -> bytes:
    return _text(b"\x0a", name) + _text(b"\x12", help_text) + b"\x18" + VARINTS[kind]


def _number_begins(labels: bytes, kind: int) -> bytes:
    """A counter or a gauge as a field of its family, up to its value."""
    field = _NUMBER_FIELDS[kind]
    return b"\x22" + VARINTS[len(labels) + len(field) + 8] + labels + field


class _Numbers:
    """The bytes of some counters or gauges of one family, which hold as long as none of their values changes."""

    __slots__ = ("_begins", "_children", "_metric", "_values", "_whole")

    def __init__(self, metric: Metric, children: list[CounterChild | GaugeChild]) -> None:
        self._metric = metric
        self._children = children
        self._begins: list[bytes] = []
        self._values: list[float | None] = []
        self._whole = b""

    def of(self, constants: Mapping[str, str]) -> bytes:
        values = list(map(_value, self._children))
        if values != self._values:
            self._values = values
            if not self._begins:
                labels = [_labels(self._metric.pairs(constants, child.labels)) for child in self._children]
                self._begins = [_number_begins(each, _TYPES[self._metric.kind]) for each in labels]
            both = zip(self._begins, values, strict=True)
            self._whole = b"".join([begin + _double(value) for begin, value in both if value is not None])
        return self._whole


_COUNT_AT, _BOUND_BYTES = 3, 9
"""In the bytes of a classic bucket: place of its count, and length of its upper bound, tag included."""


class _Classic:
    """The classic buckets of one family. All counts of a child are varints of one width, so that only they are not a template.

    They are written all at once, as in `deltas_of`: a table of the bytes of each number does not hold in a pod that has counted for
    some hours, and to make these bytes one by one cost twice what the page of OpenMetrics does.
    """

    def __init__(self, edges: tuple[float, ...]) -> None:
        self._bounds = [b"\x11" + _double(edge) for edge in edges]
        self._templates: dict[int, bytes] = {}

    def of(self, counts: list[int], observations: int, exemplars: Mapping[int, bytes]) -> bytes:
        """The buckets of a child with these counts, whose sum is given. `exemplars`: by place of the bucket, as its field 3."""
        width = max(1, (observations.bit_length() + 6) // 7)
        template = self._templates.get(width)
        if template is None:
            begin = b"\x1a" + VARINTS[1 + width + _BOUND_BYTES] + b"\x08" + bytes(width)
            template = self._templates[width] = b"".join([begin + bound for bound in self._bounds])
        cumulative = array("I" if width <= 4 else "Q", accumulate(counts))
        itemsize, stride = cumulative.itemsize, _COUNT_AT + width + _BOUND_BYTES
        *_, sevens, more = _constants(len(counts), width, 8 * itemsize)
        every = int.from_bytes(cumulative.tobytes(), "little")
        raw = _spread(every, width, sevens, more).to_bytes((len(counts) + 1) * itemsize, "little")
        out = bytearray(template)
        for place in range(width):
            out[_COUNT_AT + place :: stride] = raw[place:-itemsize:itemsize]
        # From the last one on, so that the places of those before stay.
        for index in sorted(exemplars, reverse=True):
            begins, exemplar = index * stride, exemplars[index]
            count, ends = bytes(out[begins + 2 : begins + _COUNT_AT + width]), begins + _COUNT_AT + width
            out[begins:ends] = b"\x1a" + VARINTS[len(count) + len(exemplar) + _BOUND_BYTES] + count + exemplar
        return bytes(out)


class _Histogram:
    """A histogram's bytes: its classic buckets where `classic` is given, and its native ones where it has them."""

    __slots__ = ("_child", "_classic", "_count", "_exemplars", "_labels", "_metric", "_sum", "_told", "_whole")

    def __init__(self, metric: Metric, child: HistogramChild, classic: _Classic | None) -> None:
        self._metric = metric
        self._child = child
        self._classic = classic
        self._labels = b""
        self._count = -1
        self._sum = 0.0
        self._whole = b""
        self._told: dict[int, Exemplar] = {}
        self._exemplars: dict[int, bytes] = {}

    def of(self, constants: Mapping[str, str]) -> bytes:
        child = self._child
        count = sum(child.counts)
        if not self._labels:
            self._labels = _labels(self._metric.pairs(constants, child.labels)) + b"\x3a"
        if count == self._count and child.sum == self._sum:
            return self._whole
        self._count, self._sum = count, child.sum
        exemplars = self._written(child.exemplars) if child.exemplars else {}
        # Counts are ever new numbers, and would fill the table of lengths.
        parts = [b"\x08", _varint(count), b"\x11", _double(child.sum)]
        if self._classic is not None:
            parts.append(self._classic.of(child.counts, count, exemplars))
        if child.native is not None:
            parts.append(_native(child.native, count))
            # As field 16 of the histogram: the tag differs, and no more.
            parts += [b"\x82\x01" + exemplar[1:] for exemplar in exemplars.values()]
        content = b"".join(parts)
        size = VARINTS[len(content)]
        whole = VARINTS[len(self._labels) + len(size) + len(content)]
        self._whole = b"".join((b"\x22", whole, self._labels, size, content))
        return self._whole

    def _written(self, exemplars: Mapping[int, Exemplar]) -> dict[int, bytes]:
        """Each as field 3 of its classic bucket."""
        if exemplars != self._told:
            self._told = dict(exemplars)
            self._exemplars = {index: _message(b"\x1a", _exemplar(each)) for index, each in exemplars.items()}
        return self._exemplars


_SCHEMAS = _Written(
    lambda schema: b"\x28" + ZIGZAGS[schema] + b"\x31" + _double(ZERO_THRESHOLD) + b"\x38",
)
"""Fields of Histogram: schema, zero threshold, and the tag of the zero count. The threshold tells a native histogram from others."""


def _native(native: NativeBuckets, observations: int) -> bytes:
    """Fields of Histogram: schema, zeros, and the buckets as one span and the difference of each count from the one before."""
    begin = _SCHEMAS[native.schema] + VARINTS[native.zeros]
    if not native.counts:
        return begin
    span = b"\x08" + ZIGZAGS[native.first] + b"\x10" + VARINTS[len(native.counts)]
    deltas = deltas_of(native.counts, observations)
    return b"".join((begin, b"\x62", VARINTS[len(span)], span, b"\x6a", VARINTS[len(deltas)], deltas))


def deltas_of(counts: "array[int]", most: int) -> bytes:
    """The differences of neighbours, the first from 0, as zigzag varints of one width; no count is above `most`.

    All at once: each count is 32 bits of one large number, so that a step costs what a step on a few hundred bytes does. A
    loop over a hundred buckets would cost more than the text of a whole classic histogram. Zeros may end a varint, so that all
    can be as wide as the widest; a decoder takes up to ten bytes.
    """
    size, width = len(counts), most.bit_length() // 7 + 1
    if 7 * width > 8 * counts.itemsize:
        counts = array("Q", counts)
    lane = 8 * counts.itemsize
    ones, bias, low, sevens, more = _constants(size, width, lane)
    sign = 7 * width - 1
    every = int.from_bytes(counts.tobytes(), "little")
    # In each lane the difference plus 2^sign, which is above 0, so that none borrows from its neighbour.
    biased = every + bias - (every << lane)
    falls = (biased >> sign & ones) ^ ones
    zigzag = (biased & low ^ (falls << sign) - falls) << 1 | falls
    raw = _spread(zigzag, width, sevens, more).to_bytes((size + 1) * counts.itemsize, "little")[: -counts.itemsize]
    if width == 1:
        return raw[:: counts.itemsize]
    out = bytearray(width * size)
    for place in range(width):
        out[place::width] = raw[place :: counts.itemsize]
    return bytes(out)


def _spread(lanes: int, width: int, sevens: int, more: int) -> int:
    """Each lane's number as a varint of this width, in the lowest bytes of the lane."""
    spread = lanes & sevens | more
    for place in range(1, width):
        spread |= (lanes >> 7 * place & sevens) << 8 * place
    return spread


@lru_cache(4 * MOST_BUCKETS)
def _constants(size: int, width: int, lane: int) -> tuple[int, int, int, int, int]:
    """In each lane and one more: 1, 2^sign, the bits below it, 7 bits, and the marks of bytes that go on."""
    ones = int.from_bytes((b"\x01" + bytes(lane // 8 - 1)) * (size + 1), "little")
    bias = ones << 7 * width - 1
    return ones, bias, bias - ones, ones * 0x7F, ones * sum(0x80 << 8 * place for place in range(width - 1))


def _exemplar(exemplar: Exemplar) -> bytes:
    content = _labels([("trace_id", exemplar.trace_id)]) + b"\x11" + _double(exemplar.value)
    if exemplar.at_unix is None:
        return content
    milliseconds = round(exemplar.at_unix * 1e3)
    nanoseconds = milliseconds % 1000 * 1_000_000
    return content + _message(b"\x1a", b"\x08" + _varint(milliseconds // 1000) + b"\x10" + _varint(nanoseconds))


class _FamilyBytes:
    """The head of a family, and its children's bytes, in the order of the family's children, which never lose one."""

    __slots__ = ("_classic", "_constants", "_family", "_taken", "_writers", "head")

    def __init__(self, family: Family[Any], *, classic: bool) -> None:
        metric = family.metric
        self._family = family
        self.head = _head(metric.name, metric.help, _TYPES[metric.kind])
        self._classic = _Classic((*metric.buckets, float("inf"))) if classic and metric.buckets else None
        self._constants: Mapping[str, str] | None = None
        self._writers: list[Any] = []
        self._taken = 0

    def parts(self, constants: Mapping[str, str]) -> Iterator[bytes]:
        """The bytes of the children that exist now, a few at a time."""
        if constants is not self._constants:
            self._constants = constants
            self._taken = 0
        self._take_in()
        for writer in self._writers:
            yield writer.of(constants)

    def _take_in(self) -> None:
        metric, size = self._family.metric, 1 if self._family.metric.buckets else NUMBERS_AT_ONCE
        whole = self._taken - self._taken % size
        if len(self._family.children) == self._taken:
            return
        children = list(islice(self._family.children.values(), whole, None))
        self._taken = whole + len(children)
        del self._writers[whole // size :]
        for begin in range(0, len(children), size):
            some = children[begin : begin + size]
            self._writers.append(
                _Histogram(metric, some[0], self._classic) if metric.buckets else _Numbers(metric, some)
            )


class ProtobufPage:
    """The protobuf page of one registry. `metrics.native_histograms` says whether classic buckets stand on it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        classic = metrics.native_histograms != "only"
        self._families = [_FamilyBytes(family, classic=classic) for family in metrics.families]

    def slices(self, at: float) -> Iterator[bytes]:
        """The page in steps of bounded length, some of which only encode, and are empty; `at`: monotonic instant of the scrape."""
        self._metrics.refresh(at)
        out: list[bytes] = []
        ready = 0
        for family in self._families:
            parts = [family.head]
            chunks: list[bytes] = []
            whole = size = len(family.head)
            for part in family.parts(self._metrics.constants):
                parts.append(part)
                size += len(part)
                whole += len(part)
                if size >= ENCODED_BYTES:
                    chunks.append(b"".join(parts))
                    parts, size = [], 0
                    yield b""
            if whole == len(family.head):
                continue
            out += (VARINTS[whole], *chunks[:1])
            if chunks:
                yield b"".join(out)
                yield from chunks[1:]
                out, ready = [], 0
            out += parts
            ready += size
            if ready >= ENCODED_BYTES:
                yield b"".join(out)
                out, ready = [], 0
        if out:
            yield b"".join(out)


def process_families(registry: CollectorRegistry) -> bytes:
    """The counters and gauges of prometheus_client's own collectors."""
    return b"".join(
        VARINTS[len(content)] + content
        for metric in registry.collect()
        if (content := _process_family(metric.documentation, metric.type, metric.samples))
    )


def _process_family(help_text: str, kind: str, samples: list[Any]) -> bytes:
    counted = _TYPES["gauge" if kind == "unknown" else kind]
    numbers = [_number_begins(_labels(one.labels.items()), counted) + _double(one.value) for one in samples]
    return _head(samples[0].name, help_text, counted) + b"".join(numbers) if samples else b""
