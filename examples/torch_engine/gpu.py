"""Attention over paged KV by a Triton kernel, and CUDA graphs for steps that only decode."""
from array import array

import torch
import triton
import triton.language as tl
from torch import Tensor

from kv import Row

PREFILL_TOKENS = 16  # of one program of the kernel; times the heads that share a KV head

def ints(values: list, device="cpu") -> Tensor:
    return torch.tensor(values, dtype=torch.int32).to(device, non_blocking=True)

def padded(tables: list[array]) -> Tensor:
    longest = max(map(len, tables))
    rows = b"".join(table.tobytes().ljust(4 * longest, b"\0") for table in tables)
    return torch.frombuffer(bytearray(rows), dtype=torch.int32).view(-1, longest)

class TritonAttention:
    """One launch for the decoding rows and one for the others. ``pieces`` has a line for each program: row, first token
    in the batch, tokens, position."""

    def __init__(self, kv: Tensor, block_tokens: int, tables: Tensor, slots: Tensor, pieces: list[tuple[Tensor, int]]):
        self.kv, self.block_tokens, self.tables, self.slots, self.pieces = kv, block_tokens, tables, slots, pieces

    @classmethod
    def of(cls, kv: Tensor, block_tokens: int, rows: list[Row], slots: Tensor) -> "TritonAttention":
        decode = [(i, r.first, 1, r.position) for i, r in enumerate(rows) if r.tokens == 1]
        prefill = [(i, r.first + t, min(PREFILL_TOKENS, r.tokens - t), r.position + t)
                   for i, r in enumerate(rows) if r.tokens > 1 for t in range(0, r.tokens, PREFILL_TOKENS)]
        pieces = [(ints(part, kv.device), most) for part, most in ((decode, 1), (prefill, PREFILL_TOKENS)) if part]
        return cls(kv, block_tokens, padded([row.table for row in rows]).to(kv.device), slots, pieces)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        (keys, values), q = self.kv[layer], q.contiguous()
        out = torch.empty_like(q)
        keys[self.slots], values[self.slots] = k, v
        (_, heads, width), kv_heads = q.shape, k.shape[1]
        for pieces, most in self.pieces:
            rows = max(16, triton.next_power_of_2(most * (heads // kv_heads)))  # tensor cores need 16
            paged_attention[(len(pieces), kv_heads)](
                q, keys, values, out, self.tables, pieces, width**-0.5 * 1.4426950408889634, self.tables.stride(0),
                self.block_tokens, heads, kv_heads, width, rows, 64, num_warps=4, num_stages=3 if rows == 16 else 2)
        return out

@triton.jit(do_not_specialize=["table_stride"])
def paged_attention(q, keys, values, out, tables, pieces, scale, table_stride, BLOCK: tl.constexpr, HEADS: tl.constexpr,
                    KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr):
    """A program computes one KV head of one piece: a softmax over the context in steps, as in FlashAttention."""
    piece, head = pieces + tl.program_id(0) * 4, tl.program_id(1)
    row, first, tokens, position = tl.load(piece), tl.load(piece + 1), tl.load(piece + 2), tl.load(piece + 3)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    token, d = tl.arange(0, ROWS) // GROUP, tl.arange(0, WIDTH)
    at = (first + token) * HEADS + head * GROUP + tl.arange(0, ROWS) % GROUP
    at = at.to(tl.int64)[:, None] * WIDTH + d[None, :]
    query = tl.load(q + at, mask=(token < tokens)[:, None], other=0.0)
    highest, total = tl.full([ROWS], -1e30, tl.float32), tl.zeros([ROWS], tl.float32)
    mixed, end = tl.zeros([ROWS, WIDTH], tl.float32), position + tokens
    for start in range(0, end, STEP):
        c = start + tl.arange(0, STEP)
        block = tl.load(tables + row * table_stride + c // BLOCK, mask=c < end, other=0).to(tl.int64)
        slot = ((block * BLOCK + c % BLOCK) * KV_HEADS + head)[:, None] * WIDTH + d[None, :]
        key = tl.load(keys + slot, mask=(c < end)[:, None], other=0.0)
        value = tl.load(values + slot, mask=(c < end)[:, None], other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        score = tl.where(c[None, :] <= position + token[:, None], score, -1e30)
        higher = tl.maximum(highest, tl.max(score, 1))
        share, shrink = tl.exp2(score - higher[:, None]), tl.exp2(highest - higher)
        total, highest = total * shrink + tl.sum(share, 1), higher
        mixed = mixed * shrink[:, None] + tl.dot(share.to(value.dtype), value, input_precision="ieee")
    tl.store(out + at, (mixed / total[:, None]).to(query.dtype), mask=(token < tokens)[:, None])

class DecodeGraphs:
    """One CUDA graph per batch size. Such a step is one launch."""

    def __init__(self, model, kv, most: int) -> None:
        self.kv, self.graphs, pool = kv, {}, torch.cuda.graph_pool_handle()
        width = -(-min(model.shape.max_context, kv.blocks * kv.block_tokens) // kv.block_tokens)
        self.inputs = torch.zeros((3, most), dtype=torch.int64, device=model.device)  # tokens, positions, slots
        self.inputs[2] = kv.blocks * kv.block_tokens  # the block that belongs to no request
        self.pieces, self.tables = (ints([[0] * n] * most, model.device) for n in (4, width))
        for size in sorted({min(n, most) for n in (1, 2, 4, *range(8, most + 8, 8))}, reverse=True):
            pieces = [(self.pieces[:size], 1)]
            attend = TritonAttention(kv.gpu, kv.block_tokens, self.tables, self.inputs[2, :size], pieces)
            compute = lambda: model.logits(model.forward(*self.inputs[:2, :size], attend)).argmax(-1)
            compute()  # compiles the kernels
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = compute()
            self.graphs[size] = graph, out

    def run(self, tokens: list[int], positions: list[int], slots: list[int], rows: list[Row]) -> list[int]:
        """Copies the inputs to the graphs' memory. Rows that pad the batch use the block that belongs to no request."""
        size, nowhere = min(n for n in self.graphs if n >= len(rows)), self.kv.blocks
        pad, (graph, out) = size - len(rows), self.graphs[size]
        batch = [tokens + [0] * pad, positions + [0] * pad, slots + [nowhere * self.kv.block_tokens] * pad]
        tables = padded([row.table for row in rows] + [array("i", [nowhere])] * pad)
        self.inputs[:, :size].copy_(torch.tensor(batch))
        self.pieces[:size].copy_(ints([(i, i, 1, p) for i, p in enumerate(batch[1])]))
        self.tables[:size, : tables.shape[1]].copy_(tables)
        graph.replay()
        return out[: len(rows)].tolist()
