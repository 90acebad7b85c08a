"""A stronger source writes over a weaker one, and remembers which one it beat."""

from sidecar.config.origins import Kind, Merged, Source


def merged() -> Merged:
    tree = {"log": {"level": "debug"}, "objectives": {"chat": {"ttft": {"target": 0.9}}, "docs": None}, "lanes": 5}
    return Merged(
        tree, {("log", "level"): Source(Kind.FILE, "c.yml:2"), ("objectives", "chat"): Source(Kind.FILE, "c.yml:4")}
    )


def test_a_value_replaces_the_weaker_one_and_names_its_place() -> None:
    values = merged()
    values.set(("log", "level"), "info", Source(Kind.ENVIRONMENT, "$V"))
    values.set(("log", "level"), "error", Source(Kind.FLAG, "--log.level"))

    assert values.tree["log"] == {"level": "error"}
    assert values.sources["log", "level"] == Source(Kind.FLAG, "--log.level", ("$V", "c.yml:2"))


def test_a_part_leaves_the_rest_of_its_whole_and_a_whole_takes_its_parts_away() -> None:
    """The source of the value at a path is known for parts and wholes alike."""
    values = merged()
    values.set(("objectives", "chat", "ttft", "threshold_seconds"), 1, Source(Kind.ENVIRONMENT, "$PART"))
    values.set(("objectives", "docs", "tpot"), "none", Source(Kind.ENVIRONMENT, "$DOCS"))
    parts = dict(values.tree["objectives"])
    places = [
        values.outside(("objectives", "chat", "ttft", "threshold_seconds")),
        values.outside(("objectives", "chat")),
        values.outside_below(("objectives", "chat")),
        values.outside_below(("log",)),
    ]
    values.set(("objectives",), {}, Source(Kind.ENVIRONMENT, "$WHOLE_CONFIG"))

    assert parts == {"chat": {"ttft": {"target": 0.9, "threshold_seconds": 1}}, "docs": {"tpot": "none"}}
    assert places == ["$PART", None, "$PART", None]
    assert values.sources["objectives",] == Source(Kind.ENVIRONMENT, "$WHOLE_CONFIG", ("c.yml:4", "$PART", "$DOCS"))
    assert values.outside(("objectives", "chat", "ttft")) == "$WHOLE_CONFIG"


def test_a_section_that_is_no_mapping_stays_the_error_that_it_is() -> None:
    values = merged()
    values.set(("lanes", "default"), "chat", Source(Kind.FLAG, "--x"))

    assert (values.tree["lanes"], ("lanes", "default") in values.sources) == (5, False)
