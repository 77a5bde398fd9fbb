"""KV blocks by id, and attention over them. takt counts them, and decides what is cached and who is swapped."""
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

@dataclass
class Sequence:
    """A request. ``on_token(token, end)``: ``end`` is None, "length", or a failure's reason without a token."""
    id: int
    tokens: list[int]  # the prompt, and then the output too
    max_tokens: int
    on_token: Callable[[int | None, str | None], None] = lambda token, end: None
    prompt_tokens: int = 0  # set when it is submitted
    hashes: list[int] = field(default_factory=list)  # of the prompt's whole blocks
    table: array = field(default_factory=lambda: array("i"))  # its blocks on the GPU, in order of position
    host: list[int] = field(default_factory=list)  # its blocks in host memory
    published: int = 0  # leading blocks of the table that others can find

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_tokens :]

def prefix_hashes(tokens: list[int], block_tokens: int) -> list[int]:
    """Each hash is of a whole block and of all blocks before it."""
    hashes = [b""]
    for i in range(0, len(tokens) - block_tokens + 1, block_tokens):
        hashes.append(blake2b(hashes[-1] + repr(tokens[i : i + block_tokens]).encode(), digest_size=8).digest())
    return [int.from_bytes(hash, "little") for hash in hashes[1:]]

class KvCache:
    """KV memory of all layers in one tensor of shape (layers, 2, slots, KV heads, head width), and another in host
    memory. A slot is the place of one token. The last block belongs to no request: padding writes to it."""

    def __init__(self, model, blocks: int, host_blocks: int, block_tokens: int) -> None:
        s, pin = model.shape, model.device.type != "cpu" and host_blocks > 0
        shape = lambda n: (s.layers, 2, n * block_tokens, s.kv_heads, s.head_width)
        self.gpu = torch.zeros(shape(blocks + 1), dtype=model.dtype, device=model.device)
        self.host = torch.zeros(shape(host_blocks), dtype=model.dtype, pin_memory=pin)
        self.blocks, self.block_tokens, self.by_hash = blocks, block_tokens, {}
        self.free, self.host_free = list(range(blocks)), list(range(host_blocks))
        self.holders, self.hash_of = [0] * blocks, [0] * blocks  # by block; hash 0: not cached

    def grow(self, of: Sequence, blocks: int) -> None:
        for _ in range(blocks):
            of.table.append(self.free.pop())
            self.holders[of.table[-1]] = 1

    def make_room(self, of: Sequence, position: int, end: int) -> None:
        """Extends the table to ``end`` tokens. If it is empty, takt has found the first ``position`` tokens cached."""
        if not of.table:
            of.table.extend(self.by_hash[hash] for hash in of.hashes[: position // self.block_tokens])
            of.published = len(of.table)
            for block in of.table:
                self.holders[block] += 1
        self.grow(of, -(-end // self.block_tokens) - len(of.table))

    def release(self, of: Sequence) -> None:
        """Gives back its blocks on the GPU. Cached blocks stay until `drop`."""
        for block in of.table:
            self.holders[block] -= 1
            if self.holders[block] == 0 and self.hash_of[block] == 0:
                self.free.append(block)
        of.table, of.published = array("i"), 0

    def publish(self, of: Sequence, computed: int) -> None:
        """Lets others find the whole blocks of the first ``computed`` tokens of the prompt. If another request has
        published a block first, it stays private, and so do those after it."""
        for i in range(of.published, min(computed // self.block_tokens, len(of.hashes))):
            if self.by_hash.setdefault(of.hashes[i], of.table[i]) != of.table[i]:
                return
            self.hash_of[of.table[i]] = of.hashes[i]
            of.published += 1

    def drop(self, hash: int) -> None:
        block = self.by_hash.pop(hash)
        self.hash_of[block] = 0
        if self.holders[block] == 0:
            self.free.append(block)

    def swap_out(self, of: Sequence, count: int) -> None:
        of.host = [self.host_free.pop() for _ in of.table[:count]]  # takt may count a block that no step has filled
        self.copy(self.gpu, list(of.table[:count]), self.host, of.host)
        self.release(of)

    def swap_in(self, of: Sequence) -> None:
        self.grow(of, len(of.host))
        self.copy(self.host, of.host, self.gpu, list(of.table))
        self.forget_host(of)

    def forget_host(self, of: Sequence) -> None:
        self.host_free += of.host
        of.host = []

    def copy(self, source: Tensor, blocks: list[int], target: Tensor, into: list[int]) -> None:
        by_block = (2, (-1, self.block_tokens))
        target.unflatten(*by_block)[:, :, into] = source.unflatten(*by_block)[:, :, blocks].to(target.device)

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
