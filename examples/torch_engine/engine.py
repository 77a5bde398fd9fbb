"""The engine: takt decides each step, and the engine computes exactly that."""
from typing import Any

import takt
import torch

from kv import KvCache, Row, SdpaAttention, Sequence, prefix_hashes
from model import Llama

class Engine:
    """``blocks``: KV blocks; ``host_blocks``: blocks in host memory, to which preempted requests are swapped;
    ``options``: others of `takt.Scheduler`. One thread at a time may call it."""

    def __init__(self, model: Llama, *, blocks: int, block_tokens: int = 16, host_blocks: int = 0, tokens: int = 2048,
                 max_seqs: int = 256, prefix_cache: bool = True, policy: str | None = None, graphs: bool = False,
                 **options: Any) -> None:
        self.model, self.prefix_cache, self.sequences, self.graphs = model, prefix_cache, {}, None
        self.kv, self.attention = KvCache(model, blocks, host_blocks, block_tokens), SdpaAttention
        self.takt = takt.Scheduler(
            policy, kv_blocks=blocks, kv_block_tokens=block_tokens, cpu_blocks=host_blocks, prefix_cache=prefix_cache,
            preempt_action="out" if host_blocks else "drop", max_running=max_seqs,
            limits=takt.Limits(tokens=tokens, max_seqs=max_seqs), **options)
        if model.device.type != "cpu":
            import gpu  # needs Triton
            self.attention = gpu.TritonAttention.of
            self.graphs = gpu.DecodeGraphs(model, self.kv, max_seqs) if graphs else None

    def submit(self, sequence: Sequence, **facts: Any) -> None:
        """``facts``: other fields of `takt.Request`, such as an estimate of the output or the workflow."""
        s, n, most = self.model.shape, len(sequence.tokens), sequence.max_tokens
        longest = min(s.max_context, self.kv.blocks * self.kv.block_tokens)
        if n < 1 or most < 1 or n + most > longest or not all(0 <= token < s.vocab for token in sequence.tokens):
            raise ValueError(f"request: is invalid; expected tokens below {s.vocab}, and 2 to {longest} with the output")
        sequence.prompt_tokens = n
        sequence.hashes = prefix_hashes(sequence.tokens, self.kv.block_tokens) if self.prefix_cache else []
        self.takt.arrive(takt.Request(
            sequence.id, sequence.prompt_tokens, max_output_tokens=sequence.max_tokens, prefix_hashes=sequence.hashes,
            prefix_block_tokens=self.kv.block_tokens, **facts))
        self.sequences[sequence.id] = sequence

    def step(self) -> takt.Plan | None:
        """Runs one step and returns its plan. None: there is nothing to do until `wake_at` or a new request."""
        plan = self.takt.plan()
        self.wake_at = plan.wake_at
        self.carry_out(plan)
        if not len(plan):
            return plan if plan.moves else None
        entries = plan.entries()
        tokens = iter(self.compute(entries))
        finished = [e.request for e in entries if self.take(e, next(tokens) if e.samples else None)]
        self.takt.commit(plan, finished=finished)
        return plan

    def carry_out(self, plan: takt.Plan) -> None:
        """Does everything that a plan asks for, except its computation."""
        for request, action in plan.preempted:
            if action == "drop":
                self.kv.release(self.sequences[request])
        for failure in plan.failed:
            self.sequences[failure.request].on_token(None, failure.reason)
        for request in plan.released:
            sequence = self.sequences.pop(request)
            self.kv.release(sequence)
            self.kv.forget_host(sequence)
        for chunk in plan.dropped:
            self.kv.drop(chunk.hash)
        for move in plan.moves:
            sequence = self.sequences[move.request]
            self.kv.swap_out(sequence, move.blocks) if move.action == "out" else self.kv.swap_in(sequence)
            self.takt.move_done(move.id)

    def compute(self, entries: list[takt.PlanEntry]) -> list[int]:
        """Computes the entries in one batch. Returns the tokens of those that sample."""
        n, tokens, positions, slots, rows, last = self.kv.block_tokens, [], [], [], [], []
        for e in entries:
            sequence, span = self.sequences[e.request], range(e.position, e.position + e.tokens)
            self.kv.make_room(sequence, e.position, span.stop)
            rows.append(Row(len(tokens), e.tokens, e.position, sequence.table))
            tokens += sequence.tokens[e.position : span.stop]
            positions += span
            slots += [sequence.table[p // n] * n + p % n for p in span]
            last += [len(tokens) - 1] if e.samples else []
        if self.graphs and len(last) == len(tokens):  # all rows decode
            return self.graphs.run(tokens, positions, slots, rows)
        inputs = torch.tensor([tokens, positions, slots]).to(self.model.device)
        x = self.model.forward(inputs[0], inputs[1], self.attention(self.kv.gpu, n, rows, inputs[2]))
        return self.model.logits(x[last or [-1]]).argmax(-1).tolist()[: len(last)]  # waits for the device

    def take(self, entry: takt.PlanEntry, token: int | None) -> bool:
        """Notes an entry's result. Returns true if its request is finished."""
        sequence = self.sequences[entry.request]
        if entry.prefill:
            self.kv.publish(sequence, min(entry.position + entry.tokens, sequence.prompt_tokens))
        if token is None:
            return False
        sequence.tokens.append(token)
        end = "length" if len(sequence.tokens) == sequence.prompt_tokens + sequence.max_tokens else None
        sequence.on_token(token, end)
        return end is not None
