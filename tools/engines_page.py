"""Writes docs/engines.md from the channels that each kind of engine declares for its reports.

Knows how to write a channel as a row. The prose around the rows stands here too, so that the page has one source.
"""

from sidecar.engines.kind import UNKNOWN_KIND, Channel, EngineKind
from sidecar.engines.kinds import KINDS
from sidecar.timeline.belief import LEARNED_FROM
from tests.support.proofs import standing
from tools.markdown import table


_BEFORE = """# Engines

<!-- Written by `make docs`; a test holds the page to the code. -->

For each engine: how it reports the times of one request, since which version, with which flags, which of the times are exact
and which are not. Time that no source reports is `unattributed`. Every row was looked up in the engine's source or seen on its wire.

- **exact**: the engine states it, on its own clock (`source="engine"`).
- **derived**: a difference that also contains time which the engine does not state (`source="derived"`), always an upper bound.
- **tried**: *proven on* a real engine, which tests start; *mocked after* the named file of the engine's own source at that commit; or *claimed*,
  where no test says that it proves the row (`pytest.mark.proves`). What is mocked is in `tests/streams/` and `tests/spans/`, or beside its test. It
  goes through the whole sidecar, intact and damaged (fields missing, null, negative, strings, huge, renamed). Either the right phases come
  out, or the report is refused and the refusal is counted.

In-band reports come with the answer and cost nothing. If an engine has several sources, the report in the answer is used first.
"""

_HEAD = ("source", "version", "flags", "exact", "not stated, or only as a bound", "tried")

_AFTER = """
## Paths that count as inference

A POST whose path ends with one of these segments is an inference request: it has a lane, a timeline and, if the engine reports,
phases. What stands before them does not matter (`/openai/v1` of KServe, `/v3`, `/engines/v1`, a gateway's prefix), nor does a trailing or
doubled slash. The longest entry decides. `engine.paths` in the [config](configuration.md) adds paths and excludes some. All other requests
pass through and are counted in `llm_passthrough_requests_total`; those that look like inference also in `llm_uncounted_inference_total`,
with their path in the log.

| path | served by |
|---|---|
| `/v1/chat/completions`, `/v1/completions` | every engine; Triton with its OpenAI front end |
| `/chat/completions`, `/completions` | llama.cpp (the second in its own format), gateways |
| `/v1/responses`, `/responses`, `/v1/messages` | vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, LMDeploy |
| `/generate` | SGLang, LMDeploy; TGI in its own format (the answer shows which) |
| `/generate_stream`, and `/` if the engine is known to be TGI | TGI |
| `/v2/models/*/generate`, `/v2/models/*/generate_stream`, with a version too | Triton |
| `/api/chat`, `/api/generate` | Ollama (lines of JSON; streamed unless the request says `"stream": false`). One without a prompt loads a model: `accepted` |
| `/completion`, `/infill` | llama.cpp |
| `/inference/v1/generate` | vLLM: tokens in, tokens out, as llm-d uses it |
| `/invocations` | any of these APIs, on SageMaker: the body tells which |
| `/v1/audio/transcriptions`, `/v1/audio/translations` | vLLM |
| `/embeddings`, `/embedding`, `/embed`, `/rerank`, `/reranking`, `/score`, `/pooling`, `/classify` | vLLM, SGLang, llama.cpp, Ollama, TEI |

The last two rows generate nothing, or text from audio: their requests have lane, model, outcome and times, teach nothing about
prefill or decode, and have an objective only where `objectives.LANE.encode_e2e` gives one. A GET on `/v1/responses/ID?stream=true` delivers
an answer that was ordered before: its gaps, tokens and end are measured, and no TTFT. Websockets on these paths and on
`/v1/realtime`, speech (`/v1/audio/speech`) and pictures (`/v1/images/...`) pass, and nothing splits them: they are counted in
`llm_uncounted_inference_total`.

## When an answer is whole

An API says by itself that an answer is whole. This counts where the HTTP framing says so too and the answer was read:

| API | a stream is proved by | a whole answer is proved by | it is denied by |
|---|---|---|---|
| chat, completions, vLLM's tokens | a `finish_reason` for each choice; `[DONE]` | a `finish_reason` for each choice | `abort`, `error`, `cancelled` or `timeout` as reason; `error`; `"object": "error"` |
| `/v1/responses` | `response.completed` or `response.incomplete` | the same as status | status `failed` or `cancelled`; an event `error` |
| `/v1/messages` | a `stop_reason`; `message_stop` | a `stop_reason` | `error`; those words as `stop_reason` |
| Ollama, llama.cpp's own | `"done": true`; `"stop": true` | the same | `error`; for Ollama those words as `done_reason` |
| TGI's own | `generated_text` | the same | `error` |
| SGLang's own | `finish_reason` in `meta_info`; `[DONE]` | the same without `[DONE]` | `abort`; `error` |
| transcriptions | a `finish_reason`, or `transcript.text.done`; `[DONE]` | nothing: framing is all | `error` |
| Triton's own, embeddings and the like | nothing: framing is all | nothing | `error` |

What denies counts at once (`engine_error`). So does, on each API, an error in another server's spelling (a `detail`, `errors`, a
status of 400 or more beside a message; a null or an empty one is none), an event named `error` with data or without, a field `error`, a last
event or a whole answer that is no JSON, and a page of HTML or text in place of an answer. A mark that is missing counts
(`engine_truncated`) once {learned} answers in a row of this engine, API and model had it, whatever else could not be read. Until then, and after
{learned} in a row without it, the answer is `ok`, and `unproved` in `llm_answer_proofs_total`.

How an answer is read is told by its content type or, where that says neither events nor JSON, by its first bytes: events under `text/plain`,
under JSON's type or under none are read and split as a stream. A transcription as text is an answer.

## When the sidecar asks for times

An engine that reports on request is asked on each inference request by a header field, unless the client sent that field itself: {timed}.
What the engine adds for that is read, and taken out of the answer ([deviations.md](deviations.md)).

From an engine of another kind, or of none that is known, a header in the form of `Server-Timing` is read if `engine.timing_header` names it. It
is taken only if it states a `queue` and beside it a `prefill` or a `ttft`, in milliseconds, each once, and if they fit what was measured
here.

## When the sidecar asks for a usage chunk

The sidecar adds `stream_options.include_usage` to requests that do not mention it, but only for engines whose source shows that
the only effect is one usage-only chunk at the end: {asked}.

With `--enable-force-include-usage` vLLM states usage to every client, and that chunk is theirs. Since 0.25 such a stream shows it in its
first event, and nothing is cut. An older vLLM shows it at the end alone: so its first {learned} whole streams of each API are not asked, and
have no split. So it is with Dynamo, whose variable `DYN_ENABLE_FORCE_INCLUDE_USAGE` does the same.

What is believed of an engine takes {learned} answers in a row, and as many unlearn it. An answer that broke off, was not read whole or ended
too early teaches nothing. So {learned} streams of which clients got usage that they had not asked for stop the asking on that API. One
answer that comes compressed although `identity` was asked for stops it at once ([deviations.md](deviations.md)). Each stop and each start is
a line of the log (`usage_not_asked`, `usage_asked`). `llm_sidecar_usage_stopped`, the status page and `sidecar doctor` say why it stands still.

The other engines are not asked. SGLang, LMDeploy, and completions of TensorRT-LLM and Ollama put a `usage` into other chunks
too. TensorRT-LLM once sent the chunk unasked. llama.cpp would move its `timings` into the chunk that is cut out. For the rest
there is no proof yet. If a client asks by itself, its counts are read on every engine.
"""


def page() -> str:
    """The whole page."""
    sections = "".join(_section(kind) for kind in sorted(KINDS.values(), key=lambda kind: kind.title.lower()))
    return _BEFORE + sections + _last() + _AFTER.format(asked=_asked(), timed=_timed(), learned=LEARNED_FROM)


def _section(kind: EngineKind) -> str:
    rows = table(_HEAD, (_cells(kind.name, channel) for channel in kind.channels))
    return f"\n## {kind.title}\n\n`engine.kind: {kind.name}`\n\n{rows}"


def _cells(kind: str, channel: Channel) -> tuple[str, ...]:
    # Without backticks: in docs/ backticks mark files of this checkout, and these are the engine's.
    follows = channel.follows.replace("`", "")
    tried = standing(kind, channel.name, follows)
    if follows and follows not in tried:
        tried += f"; read in {follows}"
    return channel.source, channel.version, channel.flags or "none", channel.exact, channel.missing, tried


def _last() -> str:
    """The section on unknown engines, which were not examined."""
    return (
        f"\n## {UNKNOWN_KIND.title[0].upper()}{UNKNOWN_KIND.title[1:]}\n\n`engine.kind: {UNKNOWN_KIND.name}`: transformers serve, LiteLLM, "
        "gateways, hosted APIs. Their reports are not\nknown, so the sidecar asks them for none and accepts none. TTFT, inter-token "
        "times, tokens and outcomes are measured; the\nTTFT is not split.\n"
    )


def _timed() -> str:
    asked = [(kind.title, kind.asked_report.field) for kind in KINDS.values() if kind.asked_report is not None]
    return ", ".join(f"{title} by `{name.decode()}: {value.decode()}`" for title, (name, value) in asked)


def _asked() -> str:
    dialects = {"openai_chat": "chat", "openai_completions": "completions"}
    found = [
        f"{kind.title} ({', '.join(word for dialect, word in dialects.items() if dialect in kind.takes_include_usage_on)})"
        for kind in KINDS.values()
        if kind.takes_include_usage_on
    ]
    return ", ".join(found)
