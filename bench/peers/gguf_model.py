"""Writes a GGUF file with a llama model of random weights and a byte vocabulary. The same seed gives the same file.

    python gguf_model.py FILE --layers 8 --width 256
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np

VOCABULARY = 3 + 256  # <unk>, <s>, </s>, and a token for each byte
TEXT = 3  # prompts use ids from here on
HEAD = 32  # width of a head


def make(path: Path, layers: int, width: int, context: int, seed: int, ends: float) -> None:
    heads, hidden = width // HEAD, 3 * width
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)

    kinds = gguf.TokenType
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{i:02X}>".encode() for i in range(256))]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *([kinds.BYTE] * 256)])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)

    rng = np.random.default_rng(seed)

    def weights(name: str, out: int, inner: int, scale: float = 1.0) -> None:
        drawn = rng.standard_normal((out, inner), dtype=np.float32)
        writer.add_tensor(name, drawn * np.float32(scale / inner**0.5))

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(width, dtype=np.float32))

    weights("token_embd.weight", VOCABULARY, width, width**0.5)
    for i in range(layers):
        ones(f"blk.{i}.attn_norm.weight")
        # Sharper than usual, so that a token depends on its whole context and not only on the last token.
        weights(f"blk.{i}.attn_q.weight", width, width, 2.0)
        weights(f"blk.{i}.attn_k.weight", width // 2, width, 2.0)
        weights(f"blk.{i}.attn_v.weight", width // 2, width)
        weights(f"blk.{i}.attn_output.weight", width, width)
        ones(f"blk.{i}.ffn_norm.weight")
        weights(f"blk.{i}.ffn_gate.weight", hidden, width)
        weights(f"blk.{i}.ffn_up.weight", hidden, width)
        weights(f"blk.{i}.ffn_down.weight", width, hidden)
    ones("output_norm.weight")
    head = rng.standard_normal((VOCABULARY, width), dtype=np.float32) * np.float32(4.0 / width**0.5)
    head[:TEXT] *= np.array([[0.0], [0.0], [ends]], dtype=np.float32)
    head[TEXT + 128 :] = 0.0  # outputs are ASCII: servers hold back tokens of incomplete characters
    writer.add_tensor("output.weight", head)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=256, help=f"width of the model, a multiple of {2 * HEAD}")
    parser.add_argument("--context", type=int, default=8192, help="the longest [tokens]")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--ends", type=float, default=0.0, help="logit of the end, relative to others; 0: no output ends")
    options = parser.parse_args()
    make(options.file, options.layers, options.width, options.context, options.seed, options.ends)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
