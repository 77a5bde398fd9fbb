"""Attention over paged KV: by SDPA on a CPU, by a Triton kernel on a GPU. A batch is a list of rows."""
from array import array
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU needs none
    triton = None

PREFILL_TOKENS = 16  # of one program of the kernel; times the heads that share a KV head


class Row(NamedTuple):
    """A plan entry: tokens [first, first + tokens) of the batch are [position, position + tokens) of its context."""
    first: int
    tokens: int
    position: int
    table: array  # its KV blocks, in order of position


class SdpaAttention:
    """One call of SDPA per row. The context's keys and values are gathered by the block table."""

    def __init__(self, kv: Tensor, block_tokens: int, rows: list[Row], slots: Tensor) -> None:
        self.kv, self.slots, self.rows = kv, slots, []
        for row in rows:
            end = row.position + row.tokens
            at = torch.arange(end)
            context = torch.tensor(row.table)[at // block_tokens] * block_tokens + at % block_tokens
            mask = None if row.tokens == 1 else at <= torch.arange(row.position, end)[:, None]
            self.rows.append((slice(row.first, row.first + row.tokens), context, mask))

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        (keys, values), out = self.kv[layer], torch.empty_like(q)
        keys[self.slots], values[self.slots] = k, v
        for mine, context, mask in self.rows:
            heads_first = (x.transpose(0, 1)[None] for x in (q[mine], keys[context], values[context]))
            out[mine] = F.scaled_dot_product_attention(*heads_first, attn_mask=mask, enable_gqa=True)[0].transpose(0, 1)
        return out


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


def ints(values: list, device) -> Tensor:
    return torch.tensor(values, dtype=torch.int32).to(device, non_blocking=True)


def padded(tables: list[array]) -> Tensor:
    longest = max(map(len, tables))
    rows = b"".join(table.tobytes().ljust(4 * longest, b"\0") for table in tables)
    return torch.frombuffer(bytearray(rows), dtype=torch.int32).view(-1, longest)


if triton is not None:
    @triton.jit(do_not_specialize=["table_stride"])
    def paged_attention(q, keys, values, out, tables, pieces, scale, table_stride, BLOCK: tl.constexpr,
                        HEADS: tl.constexpr, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
                        STEP: tl.constexpr):
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
