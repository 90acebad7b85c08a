"""What Hugging Face TGI says in its spans (3.3.6-dev0, `router/src/server.rs`, `router/src/logging.rs`; from fixtures).

It knows the span of each handler (`generate_stream`, `chat_completions`, ...), set when the last token has gone out, of
streams too. Its times are strings, as Rust writes a `Duration` for debugging: a decimal number and `ns`, `\u00b5s`, `ms` or `s`,
at full precision; there are no minutes. `validation_time` runs from the request to the queue, `queue_time` to the batch. The
handler's span hangs under one for the HTTP request, and that under the minted one, so it is led up there (`ancestry.py`).

It refuses to split `inference_time`, which is prefill and decode in one: the prefill is what validation and queue leave of
the TTFT on the wire (`derived`), the decode is the wire's. Of several prompts in one request the times overwrite each other:
`reports_on` says so.
"""

import re

from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport


# U+00B5 is what Rust writes; U+03BC looks the same, and "us" is what a log pipeline may make of them.
_PER_SECOND = {"ns": 1e9, "\u00b5s": 1e6, "\u03bcs": 1e6, "us": 1e6, "ms": 1e3, "s": 1.0}
_DURATION = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)(ns|\u00b5s|\u03bcs|us|ms|s)")


def report_of(span: Span) -> EngineReport | None:
    """What one span says; None where it is no handler's that has answered."""
    queue = duration(span.attributes.get("queue_time"))
    validation = duration(span.attributes.get("validation_time"))
    if queue is None or "inference_time" not in span.attributes:
        return None
    return EngineReport(queue_seconds=queue, front_end_seconds=validation)


def duration(value: object) -> float | None:
    """Seconds, of a Rust `Duration` in its debug form; None where it is none."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else float(found[1]) / _PER_SECOND[found[2]]
