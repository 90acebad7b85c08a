"""The labels in a link to a runbook: closed sets and names of Kubernetes are taken, everything else is refused."""

from collections.abc import Iterator

import pytest

from sidecar.admin.runbook_labels import MOST_OTHERS, Asked, asked, filled


LANES = ("chat", "batch", "other")
MODELS = ("org/llama:3", "mistral", "other")


def test_values_of_the_closed_sets_and_names_of_kubernetes_are_taken() -> None:
    given = {
        "lane": "chat",
        "model": "org/llama:3",
        "cluster": "arn:aws:eks:eu-west-1:1:cluster/llm",
        "namespace": "llm-prod",
        "job": "monitoring/vllm",
        "pod": "vllm-0.vllm",
        "engine": "vllm",
    }

    found = asked([*given.items(), ("utm_source", "<script>")], LANES, MODELS)

    assert found == Asked({name: text for name, text in given.items() if name != "engine"}, given, "vllm", ())


@pytest.mark.parametrize("pod", ["gpu-1:9901", "10.0.0.7:9901"])
def test_the_address_that_is_the_pod_outside_kubernetes_is_taken(pod: str) -> None:
    """As alert_rules/README.md advises it, for several sidecars on one host."""
    assert asked([("pod", pod)], LANES, MODELS) == Asked({"pod": pod}, {"pod": pod})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lane", "nightly"),
        ("lane", '"} or vector(1) #'),
        ("model", "<script>alert(1)</script>"),
        ("cluster", 'eu"} or up{'),
        ("namespace", "LLM"),
        ("namespace", "a" * 64),
        ("namespace", "llm\n"),
        ("pod", "vllm_0"),
        ("pod", "a" * 254),
        ("pod", "-vllm"),
        ("pod", "a..b"),
        ("pod", "gpu-1:"),
        ("pod", "gpu-1:admin"),
        ("pod", "gpu-1:9901:9901"),
        ("job", 'x"} or up{'),
        ("job", "$(reboot)"),
        ("engine", "llama_cpp"),
    ],
)
def test_any_other_value_is_refused_with_what_is_allowed_and_is_not_repeated(name: str, value: str) -> None:
    found = asked([(name, value)], LANES, MODELS)

    (said,) = found.refused
    assert (found.values, found.given, found.engine) == ({}, {}, "")
    assert said.startswith(f"The parameter {name} was refused. It is ")
    assert value not in said


def test_all_refusals_are_told_at_once_and_a_value_given_twice_is_one() -> None:
    found = asked([("lane", "chat"), ("lane", "batch"), ("pod", "Ä"), ("model", "gpt")], LANES, MODELS)

    assert [said.partition(" was ")[0].partition(" is ")[0] for said in found.refused] == [
        "The parameter lane",
        "The parameter model",
        "The parameter pod",
    ]


def test_an_empty_value_was_not_given() -> None:
    """An alert without the label writes it so."""
    assert asked([("lane", ""), ("pod", "")], LANES, MODELS) == Asked()


def test_where_there_is_one_lane_or_model_it_is_meant() -> None:
    assert asked([], ("chat", "other"), MODELS).values == {"lane": "chat"}
    assert asked([("lane", "other")], ("chat", "other"), ("llama", "other")).values == {
        "lane": "other",
        "model": "llama",
    }


def test_places_are_filled_for_promql_and_html_and_others_are_marked() -> None:
    """A lane is named in a config and may have any character; `$lanes` is no place."""
    html = "m{lane=&quot;$lane&quot;, pod=&quot;$pod&quot;} $lanes"

    assert filled(html, {"lane": 'a"b\\<i>'}) == (
        "m{lane=&quot;a\\&quot;b\\\\&lt;i&gt;&quot;, pod=&quot;<mark>$pod</mark>&quot;} $lanes"
    )


def test_a_link_that_names_a_cluster_narrows_each_query_to_it() -> None:
    """And without one the queries are as they stand in the runbook."""
    html = "a{namespace=&quot;$namespace&quot;, job=&quot;$job&quot;} / b{namespace=&quot;$namespace&quot;}"
    known = {"namespace": "llm", "job": "vllm"}

    assert filled(html, known) == "a{namespace=&quot;llm&quot;, job=&quot;vllm&quot;} / b{namespace=&quot;llm&quot;}"
    assert filled(html, {**known, "cluster": "eu"}) == (
        "a{cluster=&quot;eu&quot;, namespace=&quot;llm&quot;, job=&quot;vllm&quot;}"
        " / b{cluster=&quot;eu&quot;, namespace=&quot;llm&quot;}"
    )


def test_labels_that_a_fleet_has_chosen_narrow_each_query_too() -> None:
    """`sidecar export --cluster-label` and `--extra-labels` write them into links; their form is that of a cluster."""
    given = {"cluster": "eu", "label.region": "west/1", "namespace": "llm"}
    found = asked(
        [*given.items(), ("label.__name__", "up"), ("label.a-b", "x"), ("label.zone", 'x"} or up{')], LANES, MODELS
    )

    assert (found.given, found.values) == (given, given)
    assert found.refused == ("The parameter label.zone was refused. It is letters, digits and . _ - / :.",)
    assert filled("a{namespace=&quot;$namespace&quot;}", found.values) == (
        "a{cluster=&quot;eu&quot;, region=&quot;west/1&quot;, namespace=&quot;llm&quot;}"
    )


@pytest.mark.parametrize(
    ("link", "filled_in"),
    [
        ({}, {"namespace": "llm", "pod": "vllm-0"}),
        ({"pod": "vllm-0"}, {"namespace": "llm", "pod": "vllm-0"}),
        ({"namespace": "llm", "job": "vllm"}, {"namespace": "llm", "job": "vllm", "pod": "vllm-0"}),
        ({"pod": "vllm-1"}, {"pod": "vllm-1"}),
        ({"namespace": "test"}, {"namespace": "test"}),
    ],
)
def test_this_pod_fills_in_what_a_link_leaves_out_unless_the_link_is_about_another(
    link: dict[str, str], filled_in: dict[str, str]
) -> None:
    """Links to other pages keep only what was given; the node has no place in a runbook."""
    placement = {"pod": "vllm-0", "namespace": "llm", "node": "gpu-7"}

    assert asked([*link.items()], LANES, MODELS, placement) == Asked(filled_in, link)


def test_a_placement_that_is_no_name_of_kubernetes_is_not_filled_in() -> None:
    placement = {"pod": 'x"} or up{', "namespace": "llm"}

    assert asked([], LANES, MODELS, placement).values == {"namespace": "llm"}


class Counted(list[tuple[str, str]]):
    """A query that counts how often it is gone through."""

    rounds = 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        self.rounds += 1
        return super().__iter__()


def test_however_many_labels_a_link_names_eight_are_taken_and_the_query_is_read_once() -> None:
    """720 of them held the loop for 17 ms: each was looked for among all."""
    query = Counted([(f"label.n{number}", "a") for number in range(720)])
    found = asked(query, LANES, MODELS)

    assert query.rounds == 1
    assert list(found.values) == [f"label.n{number}" for number in range(MOST_OTHERS)]
    assert found.refused == ("Of the parameters label.NAME the first 8 were taken; 720 were given.",)
