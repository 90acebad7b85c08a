"""The constant labels of every series: until when the engine may still set them, and when they are fixed."""

from sidecar.metrics import catalogue as c
from sidecar.metrics.constants import Constants
from sidecar.metrics.exposition import slices
from sidecar.metrics.registry import Metrics


class Page:
    """A registry and its scraped page. The engine reports the quantization; the config sets the GPU."""

    def __init__(self) -> None:
        self.metrics = Metrics(
            lanes=["chat"], prompt_buckets=["0-512"], constants={"quantization": "unknown", "gpu_type": "H100"}
        )
        self.metrics.counter(c.CLIENT_CANCELS_TOTAL).child("other", "chat", "waiting")

    def told(self, quantization: str | None, gpu_type: str | None = None) -> None:
        self.metrics.tell_constants({"quantization": quantization, "gpu_type": gpu_type})

    def request(self) -> None:
        self.metrics.counter(c.REQUESTS_TOTAL).child("other", "chat", "0-512", "ok").inc()

    def scrape(self) -> tuple[str, list[str]]:
        """The labels of a series that never changes, and the mismatch gauges."""
        lines = b"".join(slices(self.metrics, openmetrics=False, at=0.0)).decode().splitlines()
        (cancels,) = [line for line in lines if line.startswith("llm_client_cancels_total{")]
        return cancels.partition("{")[2].partition(",model")[0], [
            line.rpartition('label="')[2] for line in lines if line.startswith("llm_engine_label_mismatch{")
        ]


def test_what_the_engine_tells_before_a_request_was_scraped_stands_on_every_series() -> None:
    """Series that an earlier scrape had seen with `unknown` get the label too, because they had counted nothing."""
    page = Page()
    before = page.scrape()
    page.told("fp8")
    page.request()

    assert before == ('quantization="unknown",gpu_type="H100"', [])
    assert page.scrape() == ('quantization="fp8",gpu_type="H100"', ['quantization"} 0'])


def test_a_request_that_is_faster_than_the_engines_word_does_not_fix_the_label_before_it_is_scraped() -> None:
    """The request's series was not yet scraped, so its label may still change."""
    page = Page()
    page.request()
    page.told("fp8")

    assert page.scrape()[0] == 'quantization="fp8",gpu_type="H100"'


def test_what_comes_after_a_request_was_scraped_is_a_mismatch_and_no_new_label() -> None:
    """The label stays `unknown` and the mismatch gauge is 1."""
    page = Page()
    page.request()
    page.scrape()
    page.told("fp8")

    assert page.scrape() == ('quantization="unknown",gpu_type="H100"', ['quantization"} 1'])


def test_an_engine_that_comes_back_with_other_weights_is_a_mismatch_until_it_has_the_old_ones() -> None:
    page = Page()
    page.told("fp8")
    page.request()
    page.scrape()
    seen = []
    for quantization in ("awq", None, "fp8"):
        page.told(quantization)
        seen.append(page.scrape())

    labels = 'quantization="fp8",gpu_type="H100"'
    assert seen == [(labels, ['quantization"} 1']), (labels, ['quantization"} 1']), (labels, ['quantization"} 0'])]


def test_the_configs_word_outranks_the_engines_and_is_not_compared_with_it() -> None:
    """The config's `H100` and the engine's `NVIDIA H100 80GB HBM3` may mean the same, so they are not compared."""
    page = Page()
    page.told(None, "NVIDIA H100 80GB HBM3")

    assert page.scrape() == ('quantization="unknown",gpu_type="H100"', [])


def test_what_is_told_is_cleaned_like_every_label() -> None:
    constants = Constants({"quantization": "unknown"})
    constants.tell({"quantization": "f\np8\ud800", "colour": "red"})

    assert constants.values == {"quantization": "f?p8?"}


def test_one_version_of_the_engine_stands_at_1_and_no_other() -> None:
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
    metrics.info(c.ENGINE_INFO, "vllm", "0.32.0")
    metrics.info(c.ENGINE_INFO, "vllm", "0.33.0")
    lines = b"".join(slices(metrics, openmetrics=False, at=0.0)).decode().splitlines()

    assert [line for line in lines if line.startswith("llm_engine_info{")] == [
        'llm_engine_info{engine="vllm",version="0.33.0"} 1'
    ]
