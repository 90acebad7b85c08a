"""The box on top of a runbook: whose numbers these are, what the lane suffers from now, which engine's flags are shown."""

import re
from html import unescape

from sidecar.admin import runbook_page as around
from sidecar.admin.runbook_labels import Asked
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.interventions import ENGINES
from sidecar.diagnosis.measured import EngineDown, Latency, Measured
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import Verdict
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause


def text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def lane(name: str, model: str = "llama", *, misses: float = 0.0, cause: Cause = Cause.KV) -> Diagnosis:
    """A lane of which so many of 1000 requests missed, all for one cause of the queue."""
    verdict = Verdict(roots={Blame.QUEUE: misses}, misses=misses, causes={Blame.QUEUE: cause}) if misses else None
    return diagnose(
        Measured(
            source="sidecar",
            lane=name,
            model=model,
            window_seconds=300.0,
            ttft=Latency(
                p99_seconds=3.0 if misses else 0.1,
                p50_seconds=0.1,
                samples=1000,
                threshold_seconds=1.0,
                misses=misses,
                judged=1000.0,
                burn=misses / 50,
            ),
            verdicts={Objective.TTFT: verdict} if verdict else {},
        )
    )


BROKEN, WELL = lane("chat", misses=500.0), lane("batch")


def test_the_diagnosis_is_of_the_chosen_lane_and_of_its_worst_model() -> None:
    worse = lane("batch", "mistral", misses=400.0)
    all_of = [WELL, BROKEN, worse]

    assert [
        around.of_lane(all_of, {"lane": "batch"}, any_lane=False),
        around.of_lane(all_of, {"lane": "batch", "model": "llama"}, any_lane=False),
        around.of_lane(all_of, {"model": "mistral"}, any_lane=True),
        around.of_lane(all_of, {}, any_lane=False),
        around.of_lane([WELL, BROKEN], {}, any_lane=True),
        around.of_lane([], {"lane": "chat"}, any_lane=False),
    ] == [worse, WELL, worse, None, BROKEN, None]


def test_the_present_state_is_one_sentence_and_leads_to_the_runbook_that_fits() -> None:
    said = [
        around.present("LLMQueueBurn", BROKEN, "chat", None),
        around.present("LLMDecodeBurn", BROKEN, "chat", None),
        around.present("LLMQueueBurn", WELL, "batch", None),
        around.present("LLMQueueBurn", None, "rag", None),
        around.present("LLMQueueBurn", None, None, None),
        around.present("LLMQueueBurn", BROKEN, "chat", EngineDown()),
        around.present("LLMEngineDown", BROKEN, "chat", EngineDown(stalled=True)),
    ]

    first = f"Do first: {BROKEN.steps[0].what.fix.replace('`', '')}"
    assert (
        text(said[0])
        .replace("\u00a0", " ")
        .startswith(f"Now lane chat: phase queue, cause kv, confidence 100 %. {first}")
    )
    assert [text(one).replace("\u00a0", " ") for one in said[1:]] == [
        "Now lane chat: phase queue, cause kv, confidence 100 %. Read LLMQueueBurn too.",
        "Now lane batch is well: it meets what is promised.",
        "Now: no request of lane rag in the window.",
        "",
        "Now the engine is down. Read LLMEngineDown.",
        "Now the engine is stalled.",
    ]
    assert 'href="/runbooks/LLMQueueBurn?lane=chat&amp;model=llama"' in said[1]


def test_the_flags_are_of_the_recognised_engine_unless_the_link_says_otherwise() -> None:
    found = [
        around.engines_shown(Asked(), "vllm"),
        around.engines_shown(Asked(), None),
        around.engines_shown(Asked(), "llama_cpp"),
        around.engines_shown(Asked(engine="all"), "vllm"),
        around.engines_shown(Asked(engine="sglang", given={"lane": "chat", "engine": "sglang"}), "vllm"),
    ]

    assert [(engines, text(said)) for engines, said in found] == [
        (("vllm",), "The flags of vLLM, this pod's engine; all engines."),
        (ENGINES, "The flags of all engines: the sidecar has not recognised its engine."),
        ((), "No flag of llama.cpp is known here; all engines."),
        (ENGINES, "The flags of all engines."),
        (("sglang",), "The flags of SGLang, as the link asks; all engines."),
    ]
    assert 'href="?lane=chat&amp;engine=all"' in found[4][1]


def test_the_box_says_what_is_filled_in_what_is_missing_and_which_pod_answers() -> None:
    given = {"lane": "a<b", "pod": "vllm-1"}
    asked = Asked(given, given, "", ("The parameter job ...",))
    places = ("lane", "model", "namespace", "job", "pod")
    elsewhere = "Open the runbook on the admin port of that pod."

    html = around.box(asked, places, {"model": ("x&y", "other")}, "", pod="vllm-0", port=9901)

    assert [text(line) for line in html.split("</p>")[:-1]] == [
        "✗ The parameter job ...",
        "Filled in: lane a<b, pod vllm-1",
        "Choose the model: x&yother",
        "Not known here: $namespace, $job. The link in a page gives them; or add ?namespace=...",
        f"✗ The link is about pod vllm-1, but pod vllm-0 answers, and the numbers below are its own. {elsewhere}",
    ]
    assert 'href="?lane=a%3Cb&amp;pod=vllm-1&amp;model=x%26y"' in html


def test_the_way_to_another_pod_is_a_command_and_the_pod_itself_needs_none() -> None:
    values = {"pod": "vllm-1", "namespace": "llm"}
    there, here = (around.box(Asked(values), (), {}, "", pod=pod, port=9901) for pod in ("vllm-0", "vllm-1"))

    command = "kubectl -n llm port-forward pod/vllm-1 9901"
    assert f"of that pod: {command}, and the same path on http://127.0.0.1:9901." in text(there)
    assert text(here) == "Answers below are of pod vllm-1, from its last minutes. Load the page again for new ones."


def test_the_box_stands_below_the_title() -> None:
    assert around.under_title("<h1>A</h1><p>b</p>", "<div></div>") == "<h1>A</h1><div></div><p>b</p>"
    assert "<li>" in around.no_such_runbook(["Watchdog"])
