"""How a runbook is drawn: answers beside its queries, one engine's column, the present cause on top and named in words."""

import re

from sidecar.admin.runbook_drawing import Query, Shown, Table, drawn, parts
from sidecar.diagnosis.confirming import Answer
from sidecar.history.slices import run_now


TEXT = """# A

```promql check-one
up{lane="$lane"} < 1
```

Expect 0.

```promql
up
```

## Fixes

| fix | targets | cost | works when | vLLM | SGLang |
|---|---|---|---|---|---|
| do `this` | load | minutes | both | `--a` | `--b` |
| do that | kv, queue | restart | both | `--c` | - |

## Causes

| cause | what it says |
|---|---|
| `load` | more |
| `kv` | [full](LLMEngineKvCacheFull.md) |
"""


def body(text: str = TEXT, **shown: object) -> str:
    return run_now(drawn(parts(text), Shown(**{"values": {}, "answers": {}, **shown})))  # type: ignore[arg-type]


def rows(html: str) -> list[list[str]]:
    """The rows of all tables, heads included, as text."""
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", html)]
    return [[re.sub(r"<.*?>", "", cell) for cell in row] for row in cells]


def test_a_runbook_is_html_queries_and_tables() -> None:
    queries = [part for part in parts(TEXT) if isinstance(part, Query)]

    assert [part.check for part in queries] == ["check-one", ""]
    assert [part.heads for part in parts(TEXT) if isinstance(part, Table)] == [
        ("fix", "targets", "cost", "works when", "vLLM", "SGLang"),
        ("cause", "what it says"),
    ]


def test_a_query_is_filled_in_and_answered() -> None:
    html = body(values={"lane": "chat"}, answers={"check-one": Answer(True, ("12 `waiting`",))})

    assert "up{lane=&quot;chat&quot;} &lt; 1" in html
    assert "This pod now: <strong>12 <code>waiting</code></strong>" in html
    assert "This pod cannot answer it: only Prometheus knows." in html


def test_several_rows_of_an_answer_are_a_list() -> None:
    html = body(answers={"check-one": Answer(True, ("`a`: 1", "`b`: 2"))})

    assert "<ul><li><code>a</code>: 1</li><li><code>b</code>: 2</li></ul>" in html


def test_only_the_columns_of_the_shown_engines_are_there() -> None:
    one, none = body(engines=("vllm",), about_engines="Only vLLM."), body(engines=())

    assert [row[4:] for row in rows(one)[:3]] == [["vLLM"], ["--a"], ["--c"]]
    assert [row[4:] for row in rows(none)[:3]] == [[], [], []]
    assert (one.count("Only vLLM."), body().count("SGLang")) == (1, 3)


def test_the_rows_of_the_present_cause_come_first_and_say_so() -> None:
    """In words, and not by a colour alone. Without a present cause the order is that of the file."""
    html = body(cause="kv", phase="queue")

    assert [row[0] for row in rows(html)] == [
        "fix",
        "For kv, as now: do that",
        "do this",
        "cause",
        "The present cause: kv",
        "load",
    ]
    assert [row[0] for row in rows(body())] == ["fix", "do this", "do that", "cause", "load", "kv"]


def test_a_fix_for_the_phase_is_found_where_the_cause_is_not_known() -> None:
    table = "| phase | runbook |\n|---|---|\n| `queue` | a |\n| `decode` | b |\n"

    assert [row[0] for row in rows(body(phase="queue"))][1] == "For queue, as now: do that"
    assert [row[0] for row in rows(body(table, phase="decode"))] == ["phase", "The present phase: decode", "queue"]


def test_what_a_runbook_says_is_text() -> None:
    """HTML in a runbook is shown as text and never run; a link to another site stays unchanged."""
    html = body("# A\n\n<script>alert(1)</script>\n\n[b](README.md) [c](http://x/y.md)\n\n|<b>|\n|-|\n|<i>|\n")

    assert re.findall("<script|<b>|<i>", html) == []
    assert '<a href="/runbooks/">b</a> <a href="http://x/y.md">c</a>' in html


def test_all_below_the_heading_details_is_folded_and_nothing_is_lost() -> None:
    """A text without that heading, such as the index, is not folded."""
    folded = run_now(
        drawn(parts(TEXT.replace("## Fixes", "## Details\n\nMore.\n\n## Fixes")), Shown(values={}, answers={}))
    )
    whole = run_now(drawn(parts(TEXT), Shown(values={}, answers={})))

    above, _, below = folded.partition('<details class="card" id="details"><summary>Details</summary>')
    assert above + below.removesuffix("</details>").replace("\n<p>More.</p>\n", "", 1) == whole
    assert "<h2>Fixes</h2>" in below
    assert "<details" not in whole
