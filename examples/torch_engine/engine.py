"""The engine: takt decides each step, and the engine computes exactly that."""
import time
from typing import Any, Optional

import takt
import torch

from attention import Row, SdpaAttention, TritonAttention
from graphs import DecodeGraphs
from kv import KvCache, Sequence, prefix_hashes
from model import Llama


class Engine:
    """``blocks``: KV blocks; ``host_blocks``: blocks in host memory, to which preempted requests are swapped;
    ``options``: others of `takt.Scheduler`. One thread at a time may call it."""

    def __init__(self, model: Llama, *, blocks: int, block_tokens: int = 16, host_blocks: int = 0,
                 prefix_cache: bool = True, policy: Optional[str] = None, tokens: int = 2048, max_seqs: int = 256,
                 graphs: bool = False, **options: Any) -> None:
        self.model, self.prefix_cache = model, prefix_cache
        self.kv = KvCache(model, blocks, host_blocks, block_tokens)
        self.takt = takt.Scheduler(
            policy, kv_blocks=blocks, kv_block_tokens=block_tokens, cpu_blocks=host_blocks, prefix_cache=prefix_cache,
            preempt_action="out" if host_blocks else "drop", max_running=max_seqs,
            limits=takt.Limits(tokens=tokens, max_seqs=max_seqs), **options)
        self.sequences: dict[int, Sequence] = {}
        self.graphs = DecodeGraphs(model, self.kv, max_seqs) if graphs else None
        self.wake_at, self.seconds = 0, (0.0, 0.0, 0.0)  # the last step: takt, the engine's own work, the model

    def submit(self, sequence: Sequence, **facts: Any) -> None:
        """``facts``: other fields of `takt.Request`, such as an estimate of the output or the workflow."""
        longest = min(self.model.shape.max_context, self.kv.blocks * self.kv.block_tokens)
        if not sequence.tokens or sequence.max_tokens < 1 or len(sequence.tokens) + sequence.max_tokens > longest:
            raise ValueError(f"prompt, max_tokens: are invalid; expected at least 1, and at most {longest} together")
        if not all(0 <= token < self.model.shape.vocab for token in sequence.tokens):
            raise ValueError(f"prompt: is invalid; expected tokens from 0 to {self.model.shape.vocab - 1}")
        sequence.prompt_tokens = len(sequence.tokens)
        if self.prefix_cache:
            sequence.hashes = prefix_hashes(sequence.tokens, self.kv.block_tokens)
        self.takt.arrive(takt.Request(
            sequence.id, sequence.prompt_tokens, max_output_tokens=sequence.max_tokens, prefix_hashes=sequence.hashes,
            prefix_block_tokens=self.kv.block_tokens, **facts))
        self.sequences[sequence.id] = sequence

    def cancel(self, request: int) -> None:
        self.takt.cancel(request)

    def step(self) -> Optional[takt.Plan]:
        """Runs one step and returns its plan. None: there is nothing to do until `wake_at` or a new request."""
        begin = time.perf_counter()
        plan = self.takt.plan()
        planned = time.perf_counter()
        self.wake_at = plan.wake_at
        self.carry_out(plan)
        if not len(plan):
            return plan if plan.moves else None
        entries, rows, first = plan.entries(), [], 0
        for entry in entries:
            sequence = self.sequences[entry.request]
            self.kv.make_room(sequence, entry.position, entry.position + entry.tokens)
            rows.append(Row(first, entry.tokens, entry.position, sequence.table))
            first += entry.tokens
        prepared = time.perf_counter()
        sampled = iter(self.compute(entries, rows))
        computed = time.perf_counter()
        finished = [e.request for e in entries if self.take(e, next(sampled) if e.samples else None)]
        taken = time.perf_counter()
        self.takt.commit(plan, finished=finished)
        scheduling = planned - begin + time.perf_counter() - taken
        self.seconds = scheduling, prepared - planned + taken - computed, computed - prepared
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

    def compute(self, entries: list[takt.PlanEntry], rows: list[Row]) -> list[int]:
        """Computes the entries in one batch. Returns the tokens of those that sample."""
        n, device, tokens, positions = self.kv.block_tokens, self.model.device, [], []
        for e in entries:
            tokens += self.sequences[e.request].tokens[e.position : e.position + e.tokens]
            positions += range(e.position, e.position + e.tokens)
        slots = [row.table[p // n] * n + p % n for row in rows for p in range(row.position, row.position + row.tokens)]
        if self.graphs and all(e.tokens == 1 and e.samples for e in entries):
            return self.graphs.run(tokens, positions, slots, rows)
        inputs = torch.tensor([tokens, positions, slots]).to(device)
        attention = SdpaAttention if device.type == "cpu" else TritonAttention.of
        x = self.model.forward(inputs[0], inputs[1], attention(self.kv.gpu, n, rows, inputs[2]))
        last = [row.first + row.tokens - 1 for entry, row in zip(entries, rows) if entry.samples]
        sampled = self.model.logits(x[last or [-1]]).argmax(-1).tolist()  # waits for the device
        return sampled if last else []

    def take(self, entry: takt.PlanEntry, token: Optional[int]) -> bool:
        """Notes an entry's result. Returns true if its request is finished."""
        sequence = self.sequences[entry.request]
        if entry.prefill:
            self.kv.publish(sequence, min(entry.position + entry.tokens, sequence.prompt_tokens))
        if token is None:
            return False
        sequence.tokens.append(token)
        full = len(sequence.tokens) == sequence.prompt_tokens + sequence.max_tokens
        end = "stop" if token == sequence.end_token else "length" if full else None
        sequence.on_token(token, end)
        return end is not None
