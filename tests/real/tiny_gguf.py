"""Makes a tiny model that llama.cpp loads: random weights, with `tiny_model.py`'s tokenizer and chat template.

Runs inside llama.cpp's environment (`python tiny_gguf.py TOKENIZER_FOLDER FILE`), because only that has `gguf` and
numpy; the project's own environment never imports this file. Seeded. The model knows nothing about language, as that of
`tiny_model.py`.
"""

import json
import sys
from pathlib import Path

import gguf  # type: ignore[import-not-found]  # these two live in the engine's environment only
import numpy as np  # type: ignore[import-not-found]  # as gguf


EMBEDDING, FEED_FORWARD, HEADS, BLOCKS, CONTEXT = 256, 512, 4, 12, 8_192
NORMAL, CONTROL = 1, 3


def make(tokenizer: Path, file: Path) -> None:
    bpe = json.loads((tokenizer / "tokenizer.json").read_text())
    config = json.loads((tokenizer / "tokenizer_config.json").read_text())
    ids = bpe["model"]["vocab"]
    tokens = sorted(ids, key=ids.__getitem__)
    special = {token["content"] for token in bpe["added_tokens"] if token["special"]}

    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(EMBEDDING // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token in special else NORMAL for token in tokens])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in bpe["model"]["merges"]])
    writer.add_bos_token_id(ids[config["bos_token"]])
    writer.add_eos_token_id(ids[config["eos_token"]])
    writer.add_chat_template(template_of(tokenizer, config))

    dice = np.random.default_rng(7)

    def tensor(name: str, *shape: int) -> None:
        writer.add_tensor(name, dice.normal(0.0, 0.02, shape).astype(np.float32))

    tensor("token_embd.weight", len(tokens), EMBEDDING)
    tensor("output.weight", len(tokens), EMBEDDING)
    writer.add_tensor("output_norm.weight", np.ones(EMBEDDING, np.float32))
    for block in range(BLOCKS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{block}.{name}.weight", EMBEDDING, EMBEDDING)
        for name in ("ffn_gate", "ffn_up"):
            tensor(f"blk.{block}.{name}.weight", FEED_FORWARD, EMBEDDING)
        tensor(f"blk.{block}.ffn_down.weight", EMBEDDING, FEED_FORWARD)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{block}.{name}.weight", np.ones(EMBEDDING, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def template_of(tokenizer: Path, config: dict[str, str]) -> str:
    """The chat template. Newer `transformers` save it as a file of its own."""
    file = tokenizer / "chat_template.jinja"
    return file.read_text() if file.exists() else config["chat_template"]


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
