"""KV blocks by id. takt counts them, and decides what stays cached and which requests are swapped."""
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Callable, Optional

import torch


@dataclass
class Sequence:
    """A request. ``on_token(token, end)``: ``end`` is None, "length", "stop", or a failure's reason without a token."""

    id: int
    tokens: list[int]  # the prompt, and then the output too
    max_tokens: int
    on_token: Callable[[Optional[int], Optional[str]], None] = lambda token, end: None
    end_token: Optional[int] = None
    prompt_tokens: int = 0  # set when it is submitted
    hashes: list[int] = field(default_factory=list)  # of the prompt's whole blocks; each covers all blocks before it
    table: array = field(default_factory=lambda: array("i"))  # its blocks on the GPU, in order of position
    host: list[int] = field(default_factory=list)  # its blocks in host memory
    published: int = 0  # leading blocks of the table that others can find

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_tokens :]


def prefix_hashes(tokens: list[int], block_tokens: int) -> list[int]:
    hashes, hash = [], b""
    for i in range(0, len(tokens) - block_tokens + 1, block_tokens):
        hash = blake2b(hash + repr(tokens[i : i + block_tokens]).encode(), digest_size=8).digest()
        hashes.append(int.from_bytes(hash, "little"))
    return hashes


class KvCache:
    """KV memory of all layers in one tensor of shape (layers, 2, slots, KV heads, head width), and another in host
    memory. A slot is the place of one token. The last block belongs to no request: padding writes to it."""

    def __init__(self, model, blocks: int, host_blocks: int, block_tokens: int) -> None:
        s, gpu = model.shape, model.device.type != "cpu"
        shape = lambda n: (s.layers, 2, n * block_tokens, s.kv_heads, s.head_width)
        self.gpu = torch.zeros(shape(blocks + 1), dtype=model.dtype, device=model.device)
        self.host = torch.zeros(shape(host_blocks), dtype=model.dtype, pin_memory=gpu and host_blocks > 0)
        self.blocks, self.block_tokens = blocks, block_tokens
        self.free, self.host_free = list(range(blocks)), list(range(host_blocks))
        self.holders, self.hash_of = [0] * blocks, [0] * blocks  # by block; hash 0: not cached
        self.by_hash: dict[int, int] = {}

    def take(self) -> int:
        block = self.free.pop()
        self.holders[block] = 1
        return block

    def make_room(self, of: Sequence, position: int, end: int) -> None:
        """Extends the table to ``end`` tokens. If it is empty, takt has found the first ``position`` tokens cached."""
        if not of.table:
            of.table.extend(self.by_hash[hash] for hash in of.hashes[: position // self.block_tokens])
            of.published = len(of.table)
            for block in of.table:
                self.holders[block] += 1
        while len(of.table) * self.block_tokens < end:
            of.table.append(self.take())

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
        self.copy(self.gpu, of.table, self.host, of.host)
        self.release(of)

    def swap_in(self, of: Sequence) -> None:
        of.table.extend(self.take() for _ in of.host)
        self.copy(self.host, of.host, self.gpu, of.table)
        self.forget_host(of)

    def forget_host(self, of: Sequence) -> None:
        self.host_free += of.host
        of.host = []

    def copy(self, source: torch.Tensor, blocks: list[int], target: torch.Tensor, into: list[int]) -> None:
        n = self.block_tokens
        for block, other in zip(blocks, into):
            target[:, :, other * n : (other + 1) * n] = source[:, :, block * n : (block + 1) * n]
