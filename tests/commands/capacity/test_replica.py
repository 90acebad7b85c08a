"""One replica as the inputs describe it: a running engine before the tables, and each number with its origin."""

from pathlib import Path

from sidecar.commands.capacity.answer import Origin
from tests.commands.capacity.asked import SEVENTY_B, Run


# --- worked cases ------------------------------------------------------------------------------------------------------------


def test_every_number_says_where_it_comes_from(run: Run) -> None:
    facts = {fact["name"]: fact["origin"] for fact in run(*SEVENTY_B, "--users=50")["decode"]["facts"]}

    assert facts["weights_bytes"] == Origin.GIVEN
    assert facts["gpu_bandwidth"] == Origin.LOOKED_UP
    assert facts["kv_block_size"] == Origin.ASSUMED
    assert facts["cache_bytes"] == Origin.DERIVED


def test_a_config_file_is_a_model(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}'
    )

    assert run(f"--model.config={path}")["kv"]["numbers"]["token_bytes"] == 131_072


# --- what is running ---------------------------------------------------------------------------------------------------------


def test_a_running_engine_outranks_the_tables(run: Run) -> None:
    """The running engine reports 45,000 blocks of 16 tokens, and at most 16,384 tokens per request."""
    pages = {
        "/metrics": b'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="45000",cache_dtype="auto"} 1.0\n',
        "/v1/models": b'{"data": [{"id": "m", "max_model_len": 16384}]}',
    }
    flags = ("--model=llama-3.3-70b", "--engine.url=http://e:1", "--users=10", "--tokens=8192")

    memory = run(*flags, ask=lambda _url, path: pages[path])["memory"]

    assert (memory["numbers"]["sequences"], memory["numbers"]["longest_tokens"]) == (87, 16384)
    assert {fact["name"]: fact["origin"] for fact in memory["facts"]}["num_gpu_blocks"] == Origin.MEASURED
