"""Writes docs/engines.md from the channels that each kind of engine declares for its reports.

Knows how to write a channel as a row. The prose around the rows stands here too, so that the page has one source.
"""

from sidecar.engines.kind import UNKNOWN, Channel, EngineKind
from sidecar.engines.kinds import KINDS
from tools.markdown import table


_BEFORE = """# Engines

<!-- Written by `make docs`; a test holds the page to the code. -->

How each engine tells, for one request, how long it waited and computed: which way, since which version, which flags make it
speak, what is exact then and what is not. What nobody tells is `unattributed`; no row here is a guess.

- **exact**: the engine states it, on its own clock (`source="engine"`).
- **derived**: a difference with something that the engine does not state in it (`source="derived"`), always an upper bound.
- **tried against**: *the real engine*, or *fixtures* that follow the named file of the engine's own source. Fixtures stand in
  `tests/streams/` and `tests/spans/` and go through the whole sidecar, whole and damaged (fields missing, null, negative,
  strings, huge, renamed): the right phases come out, or a refusal that is counted.

In-band ways cost nothing and come with the answer. Where an engine has several, the answer's own word goes first.
"""

_HEAD = ("source", "version", "flags", "exact", "not stated, or only as a bound", "tried against")

_AFTER = """
## Paths that count as inference

A POST on one of these is an inference request: it has a lane, a timeline and, where the engine tells, phases. Everything
else passes and is one counter.

| path | spoken by |
|---|---|
| `/v1/chat/completions`, `/v1/completions` | every engine; Triton with its OpenAI front end |
| `/chat/completions`, `/completions` | llama.cpp (the second in its own words), gateways |
| `/v1/responses`, `/responses`, `/v1/messages` | vLLM, SGLang, llama.cpp, Ollama, LMDeploy |
| `/generate` | SGLang, LMDeploy; TGI in its own words (the answer tells which) |
| `/generate_stream`, and `/` where the engine is known to be TGI | TGI |
| `/v2/models/*/generate`, `/v2/models/*/generate_stream`, with a version too | Triton |
| `/api/chat`, `/api/generate` | Ollama (lines of JSON; streamed unless the request says `"stream": false`) |
| `/completion`, `/infill` | llama.cpp |

## Where a usage chunk is asked for

`stream_options.include_usage` is added, to requests that do not mention it, only where the engine's source shows that one
usage-only chunk at the end is all that comes of it: {asked}.

Not elsewhere. SGLang, LMDeploy, and completions of TensorRT-LLM and Ollama have a `usage` in other chunks too; TensorRT-LLM
once sent the chunk unasked; llama.cpp would move its `timings` into what is cut out; of the rest nobody has proven it. Where a
client asks by itself, its counts are read on every engine.
"""


def page() -> str:
    """The whole page."""
    sections = "".join(_section(kind) for kind in sorted(KINDS.values(), key=lambda kind: kind.title.lower()))
    return _BEFORE + sections + _last() + _AFTER.format(asked=_asked())


def _section(kind: EngineKind) -> str:
    rows = table(_HEAD, map(_cells, kind.channels))
    return f"\n## {kind.title}\n\n`engine.kind: {kind.name}`\n\n{rows}"


def _cells(channel: Channel) -> tuple[str, ...]:
    # Without backticks: in docs/ backticks mark files of this checkout, and these are the engine's.
    follows = channel.follows.replace("`", "")
    ran = f"{channel.ran.value}; {follows}" if follows else channel.ran.value
    return channel.source, channel.version, channel.flags or "none", channel.exact, channel.missing, ran


def _last() -> str:
    """The section on unknown engines, which were not examined."""
    return (
        f"\n## {UNKNOWN.title[0].upper()}{UNKNOWN.title[1:]}\n\n`engine.kind: {UNKNOWN.name}`: transformers serve, LiteLLM, "
        "gateways, hosted APIs. Nothing is known of what they\ntell, so nothing is asked of them and nothing believed: TTFT, "
        "inter-token times, tokens and outcomes are measured, the\nsplit of the TTFT is not.\n"
    )


def _asked() -> str:
    dialects = {"openai_chat": "chat", "openai_completions": "completions"}
    found = [
        f"{kind.title} ({', '.join(word for dialect, word in dialects.items() if dialect in kind.takes_include_usage_on)})"
        for kind in KINDS.values()
        if kind.takes_include_usage_on
    ]
    return ", ".join(found)
