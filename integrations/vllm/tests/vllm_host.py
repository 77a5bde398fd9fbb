"""vLLM's scheduler without a device: vLLM plans and counts KV, and this module makes up the model's outputs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

try:
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
except ImportError:
    register_all_kvcache_specs = None

BLOCK = 16
init_none_hash(sha256)
_hasher = get_request_block_hasher(BLOCK, sha256)


def model(folder: Path) -> str:
    """Writes a model's config, which is all that a scheduler reads of a model."""
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
                "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 1024,
                "max_position_embeddings": 65536, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
            }
        )
    )  # fmt: skip
    return str(folder)


def scheduler(
    model: str, kind: type, *, blocks=1000, seqs=4, tokens=256, caching=False, policy="fcfs", longest=8192, order=None, **takt: Any
) -> Any:
    """`policy` is vLLM's, `order` takt's."""
    if order is not None:
        takt["policy"] = order
    config = VllmConfig(
        scheduler_config=SchedulerConfig(
            max_num_seqs=seqs, max_num_batched_tokens=tokens, max_model_len=longest, enable_chunked_prefill=True,
            async_scheduling=issubclass(kind, AsyncScheduler), is_encoder_decoder=False, watermark=0.0, policy=policy,
        ),
        model_config=ModelConfig(model=model, skip_tokenizer_init=True, dtype="float32", max_model_len=longest),
        cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=caching),
        additional_config={"takt": takt} if takt else {},
    )  # fmt: skip
    config.cache_config.num_gpu_blocks = blocks
    if register_all_kvcache_specs is not None:
        register_all_kvcache_specs(config)
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
    return kind(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(
            num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        ),
        block_size=BLOCK,
        log_stats=True,
        structured_output_manager=StructuredOutputManager(config),
    )


def request(name, prompt=20, most=4, priority=0, arrival=None, first=None, trace=None, **extra) -> Request:
    rng = random.Random(name)
    tokens = list(first) if first is not None else []
    tokens += [3 + rng.randrange(1000) for _ in range(prompt - len(tokens))]
    parameters = SamplingParams(max_tokens=most, ignore_eos=True, extra_args=extra or None)
    return Request(
        request_id=name, prompt_token_ids=tokens, sampling_params=parameters, pooling_params=None, priority=priority,
        arrival_time=arrival, trace_headers=trace, block_hasher=_hasher,
    )  # fmt: skip


def outputs_of(scheduler: Any, output: Any) -> ModelRunnerOutput:
    """Returns the results of a model whose every token is 7, made up when the step begins."""
    names = list(output.num_scheduled_tokens)
    sampled = []
    for name in names:
        each = scheduler.requests[name]
        coming = each.num_output_placeholders  # outputs of overlapping steps that have not arrived, including this one
        if isinstance(scheduler, AsyncScheduler):
            whole = coming > 0 and each.num_computed_tokens == each.num_tokens + coming - 1
        else:
            whole = each.num_computed_tokens >= each.num_tokens
        sampled.append([7] if whole else [])
    return ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: i for i, name in enumerate(names)},
        sampled_token_ids=sampled,
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
    )


def finish(scheduler: Any, output: Any) -> None:
    scheduler.update_from_output(output, outputs_of(scheduler, output))


def step(scheduler: Any) -> Any:
    """Runs one iteration, whose results arrive at once."""
    output = scheduler.schedule()
    if getattr(scheduler, "takt_order", None) is not None:
        scheduler.takt_order.check()
    finish(scheduler, output)
    return output
