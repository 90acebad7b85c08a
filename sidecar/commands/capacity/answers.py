"""The answers about one replica's memory: what a token keeps, what fits, how fast decoding can be.

The flags decide which questions are asked. Each answer states its assumptions and what would change it, or names the
data that are missing. Pure functions of a `Replica`. The answer about several replicas is in `load_answer.py`.
"""

from dataclasses import asdict

from sidecar.commands.capacity.answer import Answer, RefusedError
from sidecar.commands.capacity.flags import Asked
from sidecar.commands.capacity.geometry import Geometry, attention
from sidecar.commands.capacity.replica import Replica
from sidecar.commands.capacity.units import say_bytes, say_seconds


CACHE_QUESTION = "What does a sequence keep in the KV cache?"
DEFAULT_TOKENS = 4096
DEFAULT_BATCH = 64
"""The largest batch in the table of decoding speeds if it is not known how many sequences fit."""


def memory_answers(asked: Asked, replica: Replica) -> list[Answer]:
    """The answer about the cache, and those about memory and decoding if the flags ask for them."""
    answers = [_kv(asked, replica)]
    known = replica.blocks is not None
    if asked.has("gpu", "gpu.memory", "users") or known:
        answers.append(_memory(asked, replica))
    if asked.has("gpu", "gpu.bandwidth", "tpot"):
        answers.append(_decode(asked, replica))
    return answers


def slots_that_fit(replica: Replica, tokens: int) -> int | None:
    """The number of sequences of `tokens` tokens that fit into the replica's cache; None if that is not known."""
    try:
        return replica.room().sequences(tokens)
    except RefusedError:
        return None


def _kv(asked: Asked, replica: Replica) -> Answer:
    geometry, tokens = replica.geometry, asked.count("tokens") or DEFAULT_TOKENS
    sequence, each = geometry.sequence_bytes(tokens), geometry.token_bytes()
    lines = [f"A sequence of {tokens:,} tokens takes {say_bytes(sequence)}: {say_bytes(each)} per token."]
    numbers: dict[str, object] = {"tokens": tokens, "token_bytes": each, "sequence_bytes": sequence}
    if not geometry.uniform:
        beyond = geometry.token_bytes(of_windows=False)
        numbers["token_bytes_beyond_windows"] = beyond
        lines = [
            (
                f"A sequence of {tokens:,} tokens takes {say_bytes(sequence)}: {say_bytes(each)} per token while it is within the windows,"
                f" {say_bytes(beyond)} for each token beyond them."
            )
        ]
    group = replica.model.layers[0]
    copies = max(geometry.copies(layers) for layers in geometry.layers)
    if copies > 1:
        lines.append(
            f"Each number in it is stored {copies} times: there are more GPUs than heads to divide among them."
        )
    wrong = _by_query_heads(replica)
    if wrong is not None:
        numbers["sequence_bytes_by_query_heads"] = wrong.sequence_bytes(tokens)
        lines.append(
            f"It is not {say_bytes(wrong.sequence_bytes(tokens))}. That number counts the {replica.model.query_heads} query"
            f" heads, but only the {group.heads} key-value heads are stored."
        )
    assumptions = [
        f"Memory is reserved in whole blocks of {geometry.block} tokens, over all GPUs of the replica, for prompt and output alike."
    ]
    if not geometry.uniform:
        assumptions.append(
            "The engine frees tokens that have left a window (in vLLM the hybrid KV cache manager); without that, every layer"
            " keeps all tokens."
        )
    if copies > 1:
        assumptions.append(
            "The GPUs use tensor parallelism. Data-parallel attention or decode context parallelism would keep fewer copies."
        )
    changes = ["With prefix caching, sequences share a common beginning; here each sequence is counted alone."]
    if geometry.bits > 8:
        changes.insert(
            0, f"An 8-bit cache (--kv.bits=8; vLLM: --kv-cache-dtype=fp8) takes {8 / geometry.bits:.0%} of this."
        )
    facts = tuple(replica.facts.values())
    return Answer("kv", CACHE_QUESTION, tuple(lines), numbers, facts, tuple(assumptions), tuple(changes))


def _by_query_heads(replica: Replica) -> Geometry | None:
    """The geometry by query heads, a common mistake; the answer shows how far off it is. None if it does not apply."""
    heads, head_dim, layers = replica.model.query_heads, replica.model.head_dim, replica.model.layers
    if heads is None or head_dim is None or len(layers) > 1 or heads <= layers[0].heads:
        return None
    mistaken = attention(layers[0].count, heads, head_dim, layers[0].window)
    return Geometry((mistaken,), replica.geometry.bits, replica.geometry.block)


def _memory(asked: Asked, replica: Replica) -> Answer:
    question = "How many sequences fit at once, and how long may they be?"
    tokens, users = asked.count("tokens"), asked.count("users")
    try:
        room = replica.room()
    except RefusedError as refusal:
        return Answer("memory", question, facts=tuple(replica.facts.values()), refusal=str(refusal))
    lines: list[str] = []
    numbers: dict[str, object] = {"cache_bytes": room.cache_bytes}
    most = replica.longest or 1 << 30
    if tokens is not None or users is None:
        length = tokens or DEFAULT_TOKENS
        fitting = room.sequences(length)
        numbers |= {"tokens": length, "sequences": fitting}
        lines.append(f"{fitting:,} sequences of {length:,} tokens fit into {say_bytes(room.cache_bytes)} of KV cache.")
        if replica.longest is not None and length > replica.longest:
            lines.append(f"But no sequence may be longer than {replica.longest:,} tokens here.")
        if users is not None:
            needed = users * replica.geometry.sequence_bytes(length)
            fits = room.fits(users, length)
            numbers |= {"users": users, "fits": fits, "needed_bytes": needed}
            verdict = "fit" if fits else "do not fit"
            spare = abs(room.cache_bytes - needed)
            rest = f"{say_bytes(spare)} {'are left' if fits else 'are missing'}"
            lines.insert(
                0, f"{users:,} users of {length:,} tokens {verdict}: they need {say_bytes(needed)}, and {rest}."
            )
    if users is not None:
        longest = room.longest(users, most)
        numbers |= {"users": users, "longest_tokens": longest}
        cap = ", the longest possible here" if longest == replica.longest else ""
        lines.append(
            f"{users:,} users may have {longest:,} tokens each at once{cap}."
            if longest
            else f"{users:,} users do not fit at once, however short their sequences are."
        )
    assumptions = [
        "All sequences have this length at the same moment, the worst case. Sequences that still grow need less."
    ]
    if replica.blocks is not None and not asked.has("gpu.memory", "gpu.reserve"):
        assumptions.append("The number of blocks that the engine states is its whole cache; nothing else shares it.")
    else:
        assumptions.append(
            "Memory is in decimal GB as on data sheets; a driver shows up to 7 % more. The reserve is used as given, not measured."
        )
    changes = [
        "If more sequences come than fit, engines queue requests, or preempt them and compute them again (llm_engine_preemptions_total)."
    ]
    if replica.blocks is None:
        changes.insert(0, "With --engine.url, a running vLLM states its exact number of blocks.")
    facts = tuple(replica.facts.values())
    return Answer("memory", question, tuple(lines), numbers, facts, tuple(assumptions), tuple(changes))


def _decode(asked: Asked, replica: Replica) -> Answer:
    question = "How fast can decoding be at best?"
    tokens, users, tpot = asked.count("tokens") or DEFAULT_TOKENS, asked.count("users"), asked.number("tpot")
    try:
        decode = replica.decode()
    except RefusedError as refusal:
        return Answer("decode", question, facts=tuple(replica.facts.values()), refusal=str(refusal))
    fitting = slots_that_fit(replica, tokens)
    alone = decode.row(1, 0)
    rows = decode.rows(tokens, max(1, users or fitting or DEFAULT_BATCH))
    lines = [
        (
            f"At most {alone.user_tokens_per_second:.1f} tokens/s for one user: {say_seconds(alone.step_seconds)} per token, to read"
            f" {say_bytes(decode.read_weights_bytes)} of weights at {say_bytes(decode.bytes_per_second)}/s."
        ),
        f"With {tokens:,} tokens of context each, by number of sequences that decode together:",
        *(
            f"  {row.batch:>6,}  {say_seconds(row.step_seconds):>8} per token, {row.user_tokens_per_second:>6.1f} tokens/s each,"
            f" {row.total_tokens_per_second:>8,.0f} in all"
            for row in rows
        ),
    ]
    numbers: dict[str, object] = {
        "tokens": tokens,
        "weights_only_tokens_per_second": alone.user_tokens_per_second,
        "rows": [asdict(row) for row in rows],
    }
    if tpot is not None:
        batch = decode.batch_within(tokens, tpot)
        numbers |= {"tpot_seconds": tpot, "batch_within": batch}
        lines.append(
            f"Within {say_seconds(tpot)} per token: at most {batch:,} sequences at once."
            if batch
            else f"{say_seconds(tpot)} per token cannot be reached: reading the weights alone takes {say_seconds(alone.step_seconds)}."
        )
    if fitting is not None:
        numbers["sequences_that_fit"] = fitting
        lines.append(f"The cache has room for at most {fitting:,} such sequences at once.")
    assumptions = [
        (
            "This is a lower bound of the time per token, not a forecast: memory is read at its peak bandwidth, and nothing"
            " else takes time. NVIDIA's aiconfigurator assumes 0.8 of the peak; set yours with --gpu.efficiency."
        ),
        "No prompt is prefilled at the same time, and each step makes one token per sequence.",
    ]
    if "active_weights_bytes" in replica.facts:
        assumptions.append(
            "Only the experts of one token are read. That holds for one sequence; larger batches read more experts."
        )
    changes = (
        "Fewer bits in the weights or in the cache make it faster; so do more GPUs, which also spend more time on communication.",
        "Speculative decoding makes several tokens per read of the weights.",
    )
    return Answer("decode", question, tuple(lines), numbers, tuple(replica.facts.values()), tuple(assumptions), changes)
