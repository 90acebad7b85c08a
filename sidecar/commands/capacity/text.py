"""Formats answers as text for a terminal and as JSON for a program. Contains layout only."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from sidecar.commands.capacity.answer import Answer, Fact
from sidecar.config.folding import WIDTH, folded


def as_text(answers: Sequence[Answer], columns: int = WIDTH) -> str:
    """Each answer with its facts, folded at `columns`. A fact that several answers share is shown only in the first."""
    parts, shown = [], set[Fact]()
    for answer in answers:
        lines = [answer.question]
        said = [f"No answer: {answer.refusal}"] if answer.refusal else list(answer.lines)
        for sentence in said:
            of_table = sentence.startswith("  ")
            lines += folded(sentence, columns, "  ", " " * 11 if of_table else None)
        fresh = [fact for fact in answer.facts if fact not in shown]
        shown |= set(fresh)
        if fresh:
            lines += ["", "  from"]
            width = max(len(fact.origin) for fact in fresh)
            for fact in fresh:
                source = f" ({fact.source})" if fact.source else ""
                name = fact.name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " ")
                lines += folded(f"{name}: {fact.said}{source}", columns, f"    {fact.origin:<{width}}  ")
        for title, sentences in (("assuming", answer.assumptions), ("what would change it", answer.would_change)):
            if sentences and not (answer.refusal and title == "what would change it"):
                lines += ["", f"  {title}"]
                lines += [line for sentence in sentences for line in folded(sentence, columns, "    - ")]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_json(answers: Sequence[Answer]) -> str:
    """A JSON object with a list under `answers`; a refused answer has `refusal` and neither `numbers` nor `lines`."""
    said = [
        {
            "topic": answer.topic,
            "question": answer.question,
            **(
                {"refusal": answer.refusal}
                if answer.refusal
                else {"lines": [line.strip() for line in answer.lines], "numbers": answer.numbers}
            ),
            "facts": [{key: value for key, value in asdict(fact).items() if value != ""} for fact in answer.facts],
            "assumptions": list(answer.assumptions),
            "would_change": list(answer.would_change),
        }
        for answer in answers
    ]
    return json.dumps({"answers": said}, indent=2, allow_nan=False) + "\n"
