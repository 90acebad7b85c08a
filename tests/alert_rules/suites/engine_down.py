"""An engine that is down, loads its model, or has restarted, as its sidecar saw it (alert_rules/state.py)."""

from tests.alert_rules.promtool import ALERTS, Anew, Book, Story


BOOK = Book("engine-down", rules=(ALERTS,))


@BOOK.story(4, 3)
def an_engine_that_does_not_answer(story: Story) -> None:
    """For a minute: a page."""
    story.shows("llm_engine_up", 1, 0)

    story.alerts(4.75)
    story.alerts(5.5, "LLMEngineDown page")


def pod_since(story: Story, minute: float) -> None:
    """The sidecar's process began then; promtool's clock begins at 0."""
    story.shows("process_start_time_seconds", minute * 60)
    story.shows("llm_sidecar_build_info", 1, version="1")


@BOOK.story(35)
def an_engine_that_loads_its_model(story: Story) -> None:
    """It has not been up since its pod began: it has half an hour for that."""
    pod_since(story, 0)
    story.shows("llm_engine_up", 0)

    story.alerts(5)
    story.alerts(29)
    story.alerts(31, "LLMEngineDown page")


@BOOK.story(4, 4)
def an_engine_that_goes_down_in_a_young_pod(story: Story) -> None:
    """It was up: it is not loading any more."""
    pod_since(story, 0)
    story.shows("llm_engine_up", 1, 0)

    story.alerts(7, "LLMEngineDown page")


@BOOK.story(36)
def an_engine_that_has_been_down_in_an_old_pod(story: Story) -> None:
    """For longer than anybody looks back: that is no loading."""
    pod_since(story, -60)
    story.shows("llm_engine_up", 0)

    story.alerts(5, "LLMEngineDown page")
    story.alerts(35, "LLMEngineDown page")


@BOOK.story(25)
def an_engine_that_loads_its_model_beside_something_older(story: Story) -> None:
    """Whoever else of the pod is scraped says nothing of how long the sidecar has known it."""
    pod_since(story, 0)
    other = f'instance="engine-0:9090",job="other",namespace="{story.namespace}",pod="engine-0"'
    story.series[f"process_start_time_seconds{{{other}}}"] = "-7200x100"
    story.shows("llm_engine_up", 0)

    story.alerts(20)


@BOOK.story(4, 0.75, 3)
def an_engine_that_misses_three_checks(story: Story) -> None:
    """And answers the fourth: nobody is woken."""
    story.shows("llm_engine_up", 1, 0, 1)

    for minute in (4.5, 4.75, 5, 6):
        story.alerts(minute)


@BOOK.story(4, 3)
def a_sidecar_that_is_not_scraped(story: Story) -> None:
    """It says nothing of its engine."""
    story.shows("llm_engine_up", 1, None)

    story.alerts(7)


@BOOK.story(4, 0.25, 12)
def an_engine_that_has_restarted(story: Story) -> None:
    """A ticket, for ten minutes."""
    story.counts("llm_engine_restarts_total", 0, 4, 0)

    story.alerts(4)
    story.alerts(5, "LLMEngineRestarted ticket")
    story.alerts(13, "LLMEngineRestarted ticket")
    story.alerts(15)


@BOOK.story(4, 4)
def a_sidecar_that_has_restarted(story: Story) -> None:
    """Its count of the engine's restarts begins at 0, and that is none."""
    story.counts("llm_engine_restarts_total", 0, Anew(0))
    story.counts("llm_engine_stalled_seconds_total", 0, Anew(0))

    story.alerts(6)
