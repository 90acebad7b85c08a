"""Makes a tiny model that real engines load: random weights, a tokenizer trained on the text below, a chat template.

Runs inside the engine's environment (`python tiny_model.py FOLDER`), because only that has `tokenizers` and
`transformers`; the project's own environment never imports this file. Seeded, so that two machines make the same model.
The model knows nothing about language: the output is gibberish, the streams are real.
"""

import random
import sys
from pathlib import Path

import torch  # type: ignore[import-not-found]  # these three live in the engine's environment only
from tokenizers import (  # type: ignore[import-not-found]  # as torch
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import (  # type: ignore[import-not-found]  # as torch
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)


VOCABULARY = 2_000
CONTEXT = 8_192
BEGIN, END, ROLE = "<|begin|>", "<|end|>", "<|role|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{ROLE}{{{{ message['role'] }}}}\n{{{{ message['content'] }}}}{END}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}" + ROLE + "assistant\n{% endif %}"
)
SYLLABLES = ("la", "to", "mi", "re", "nu", "ka", "so", "ti", "be", "da", "vo", "an", "er", "in", "ou", "st", "gr", "pl")


def text(lines: int) -> list[str]:
    """Invented words in invented sentences: varied enough for the tokenizer's merges, without a corpus to ship."""
    dice = random.Random(7)
    words = ["".join(dice.choices(SYLLABLES, k=dice.randint(1, 4))) for _ in range(3_000)]
    return [" ".join(dice.choices(words, k=dice.randint(4, 16))).capitalize() + "." for _ in range(lines)]


def tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END, ROLE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(text(4_000), trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BEGIN, eos_token=END, pad_token=END)
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def make(folder: Path) -> None:
    torch.manual_seed(7)
    words = tokenizer()
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=12,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
