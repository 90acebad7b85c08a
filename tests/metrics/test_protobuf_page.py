"""The protobuf page says what the registry holds, to Google's own decoder, in slices, and again after every change."""

from array import array
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import NativeForm
from sidecar.metrics.native_buckets import MOST_BUCKETS, NativeBuckets
from sidecar.metrics.protobuf_page import ENCODED_BYTES, ProtobufPage, deltas_of
from sidecar.metrics.registry import Metrics
from tests.metrics.registries import BUCKETS, busy
from tests.metrics.registries import page as text_page
from tests.support.promtool import samples
from tests.support.protobuf_reader import buckets_of, families_of


def used(native: NativeBuckets) -> dict[int, int]:
    """The native buckets that are not empty: key to count."""
    return {key: count for key, count in enumerate(native.counts, native.first) if count}


def page(metrics: Metrics, pages: ProtobufPage | None = None) -> bytes:
    return b"".join((pages or ProtobufPage(metrics)).slices(0.0))


def read(whole: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], Any]:
    """Every metric by its family's name and its labels; a family stands on the page once."""
    families = list(families_of(whole))
    assert len({family.name for family in families}) == len(families)
    return {
        (family.name, frozenset((pair.name, pair.value) for pair in one.label)): one
        for family in families
        for one in family.metric
    }


def as_text(
    found: dict[tuple[str, frozenset[tuple[str, str]]], Any],
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The same as the samples of the text format."""
    said: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for (name, labels), one in found.items():
        if not one.HasField("histogram"):
            said[name, labels] = (one.counter if one.HasField("counter") else one.gauge).value
            continue
        said[f"{name}_count", labels] = one.histogram.sample_count
        said[f"{name}_sum", labels] = one.histogram.sample_sum
        for bucket in one.histogram.bucket:
            edge = "+Inf" if bucket.upper_bound == float("inf") else repr(bucket.upper_bound)
            said[f"{name}_bucket", labels | {("le", edge)}] = bucket.cumulative_count
    return said


@pytest.mark.long
@pytest.mark.parametrize("form", ["beside", "only"])
def test_the_page_says_every_number_of_the_text(form: NativeForm) -> None:
    """Counters, gauges, sums, counts and, where they are beside, every classic bucket, with the same labels."""
    metrics = busy(form=form, most=40)

    text = samples(text_page(metrics))

    kept = {key: value for key, value in text.items() if form == "beside" or not key[0].endswith("_bucket")}
    assert kept == as_text(read(page(metrics)))


@pytest.mark.parametrize("form", ["beside", "only"])
def test_every_histogram_has_its_native_buckets(form: NativeForm) -> None:
    """Schema, zeros and each bucket, as the child counted them."""
    metrics = busy(form=form, most=40)
    found = read(page(metrics))
    family = metrics.histogram(c.REQUEST_PHASE_SECONDS)
    names = [label.name for label in family.metric.labels]

    differ = []
    for values, child in family.children.items():
        labels = frozenset({**metrics.constants, **dict(zip(names, values, strict=True))}.items())
        labels = frozenset((name, value.encode("utf-8", "replace").decode()) for name, value in labels)
        said = found[family.metric.name, labels].histogram
        assert child.native is not None
        native = child.native
        if (said.schema, said.zero_count, buckets_of(said)) != (native.schema, native.zeros, used(native)):
            differ.append(values)
        assert said.zero_threshold > 0
    assert (len(family.children) > 300, differ) == (True, [])


def test_an_exemplar_stands_in_its_bucket_and_with_the_native_histogram() -> None:
    metrics = Metrics(lanes=["a"], prompt_buckets=BUCKETS, models=["m"], native_histograms="beside")
    child = metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child("m", "a", "0-512")
    pages = ProtobufPage(metrics)
    for trace_id, value, at in (("a" * 32, 0.32, 1.7e9), ("b" * 32, 0.31, 1.7e9 + 0.0625), ("c" * 32, 2000.0, None)):
        child.observe(value, trace_id, at)
        page(metrics, pages)  # what it keeps of the exemplar before must not stay

    ((_, one),) = [
        item for item in read(page(metrics, pages)).items() if item[0][0] == c.TIME_TO_FIRST_TOKEN_SECONDS.name
    ]

    def told(exemplar: Any) -> tuple[str, float, float]:
        (pair,) = exemplar.label
        assert pair.name == "trace_id"
        return pair.value, exemplar.value, exemplar.timestamp.seconds + exemplar.timestamp.nanos / 1e9

    expected = [("b" * 32, 0.31, 1.7e9 + 0.062), ("c" * 32, 2000.0, 0.0)]
    in_buckets = {
        bucket.upper_bound: told(bucket.exemplar) for bucket in one.histogram.bucket if bucket.HasField("exemplar")
    }
    assert {0.4: expected[0], float("inf"): expected[1]} == in_buckets
    assert expected == [told(exemplar) for exemplar in one.histogram.exemplars]


@given(st.lists(st.lists(st.floats(min_value=0.0, max_value=1e6), max_size=30), min_size=1, max_size=4))
def test_a_page_after_any_observations_is_the_page_of_a_new_writer(rounds: list[list[float]]) -> None:
    """Bytes that it keeps are never out of date: values, new children, new buckets, merged ones."""
    metrics = Metrics(lanes=["a"], prompt_buckets=BUCKETS, models=["m"], native_histograms="beside")
    family = metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS)
    kept = ProtobufPage(metrics)

    for number, values in enumerate(rounds):
        for value in values:
            family.child("m", "a", BUCKETS[number]).observe(value)
            family.child("m", "a", BUCKETS[0]).observe(value)
        assert page(metrics, kept) == page(metrics)


def test_labels_that_the_engine_states_late_are_on_the_next_page() -> None:
    metrics = Metrics(lanes=["a"], prompt_buckets=(), constants={"gpu_type": "unknown"}, native_histograms="only")
    metrics.gauge(c.ENGINE_UP).child().set(1)
    pages = ProtobufPage(metrics)
    page(metrics, pages)

    metrics.tell_constants({"gpu_type": "H100"})

    assert (c.ENGINE_UP.name, frozenset({("gpu_type", "H100")})) in read(page(metrics, pages))


@pytest.mark.parametrize("form", ["beside", "only"])
def test_slices_are_small_and_a_child_is_whole_while_requests_end(form: NativeForm) -> None:
    """A large family is encoded in many turns; each of its children is as of one instant."""
    metrics = busy(form=form, most=40)
    family = metrics.histogram(c.REQUEST_PHASE_SECONDS)
    parts = []

    for part in ProtobufPage(metrics).slices(0.0):
        parts.append(part)
        for child in family.children.values():
            child.observe(0.3)

    assert max(map(len, parts)) < 2 * ENCODED_BYTES + 2048
    assert len([part for part in parts if not part]) > 10
    for (name, _), one in read(b"".join(parts)).items():
        if name == family.metric.name:
            histogram = one.histogram
            assert histogram.sample_count == histogram.zero_count + sum(buckets_of(histogram).values())
            ends = [bucket.cumulative_count for bucket in histogram.bucket][-1:]
            assert ends in ([], [histogram.sample_count])


@pytest.mark.parametrize("most", [1, 63, 64, 8191, 8192, 2**20, 2**41 - 1, 2**50])
def test_counts_of_any_size_are_written(most: int) -> None:
    """At the edges of each width: from nothing to the most and back, alone and beside others."""
    metrics = Metrics(lanes=["a"], prompt_buckets=(), native_histograms="beside")
    child = metrics.histogram(c.REQUEST_UPLOAD_SECONDS).child("a")
    child.observe(0.5)
    assert child.native is not None
    child.native.first = -3
    child.native.counts = array("Q", [most, 0, most, most // 2, 1, 1, 0, 0, most])
    child.counts[-1] += sum(child.native.counts) - 1

    ((_, one),) = [item for item in read(page(metrics)).items() if item[0][0] == c.REQUEST_UPLOAD_SECONDS.name]

    assert list(accumulate(child.counts)) == [bucket.cumulative_count for bucket in one.histogram.bucket]
    assert used(child.native) == buckets_of(one.histogram)


@given(st.lists(st.integers(min_value=0, max_value=2**40), min_size=1, max_size=MOST_BUCKETS))
def test_differences_are_zigzag_varints(counts: list[int]) -> None:
    """By a decoder that takes one byte after the other."""
    written = iter(deltas_of(array("Q", counts), sum(counts)))
    decoded = []
    for byte in written:
        number, shift = byte & 0x7F, 7
        while byte > 0x7F:
            byte = next(written)  # noqa: PLW2901  the rest of the number
            number |= (byte & 0x7F) << shift
            shift += 7
        decoded.append(number >> 1 if number % 2 == 0 else -(number >> 1) - 1)

    assert counts == list(accumulate(decoded))
