"""Writes configs, tokenizers and processors without weights, under the names that vLLM's tests use.

    python models.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import CLIPImageProcessor, LlavaConfig, LlavaProcessor, OPTConfig, PreTrainedTokenizerFast


def tokenizer_of(*special: str) -> PreTrainedTokenizerFast:
    texts = ["<pad>", "<s>", "</s>", *special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    plain = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(texts)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token="<s>", eos_token="</s>", pad_token="<pad>", additional_special_tokens=list(special)
    )


def make(folder: Path) -> None:
    for name in ("facebook/opt-125m", "facebook/opt-350m"):
        config = OPTConfig()
        config.architectures = ["OPTForCausalLM"]
        config.save_pretrained(folder / name)
        tokenizer_of().save_pretrained(folder / name)

    name = "llava-hf/llava-1.5-7b-hf"
    tokenizer = tokenizer_of("<image>")
    image = tokenizer.convert_tokens_to_ids("<image>")
    llava = LlavaConfig(image_token_index=image)
    llava.architectures = ["LlavaForConditionalGeneration"]
    llava.text_config.max_position_embeddings, llava.text_config.vocab_size = 4096, 32064
    llava.save_pretrained(folder / name)
    LlavaProcessor(
        image_processor=CLIPImageProcessor(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}),
        tokenizer=tokenizer, patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1,
    ).save_pretrained(folder / name)  # fmt: skip

    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    name = "Qwen/Qwen2.5-VL-3B-Instruct"
    special = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
    tokenizer = tokenizer_of(*special)
    ids = dict(zip(special, tokenizer.convert_tokens_to_ids(list(special))))
    qwen = Qwen2_5_VLConfig(
        image_token_id=ids["<|image_pad|>"], video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"], vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    qwen.architectures = ["Qwen2_5_VLForConditionalGeneration"]
    qwen.save_pretrained(folder / name)
    Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(), tokenizer=tokenizer, video_processor=Qwen2VLVideoProcessor()
    ).save_pretrained(folder / name)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
