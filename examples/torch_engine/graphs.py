"""CUDA graphs for steps that only decode: one per batch size. Such a step is one launch."""
from array import array

import torch

from attention import Row, TritonAttention, ints, padded


class DecodeGraphs:
    def __init__(self, model, kv, most: int) -> None:
        self.kv, self.graphs, pool = kv, {}, torch.cuda.graph_pool_handle()
        width = -(-min(model.shape.max_context, kv.blocks * kv.block_tokens) // kv.block_tokens)
        self.inputs = torch.zeros((3, most), dtype=torch.int64, device=model.device)  # tokens, positions, slots
        self.pieces = torch.zeros((most, 4), dtype=torch.int32, device=model.device)
        self.tables = torch.zeros((most, width), dtype=torch.int32, device=model.device)
        for size in sorted({min(n, most) for n in (1, 2, 4, *range(8, most + 8, 8))}, reverse=True):
            pieces = [(self.pieces[:size], 1)]
            attend = TritonAttention(kv.gpu, kv.block_tokens, self.tables, self.inputs[2, :size], pieces)
            compute = lambda: model.logits(model.forward(*self.inputs[:2, :size], attend)).argmax(-1)
            self.fill([], [], [], [], size)
            compute()  # compiles the kernels
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = compute()
            self.graphs[size] = graph, out

    def fill(self, tokens: list[int], positions: list[int], slots: list[int], rows: list[Row], size: int) -> None:
        """Copies the inputs to the graphs' memory. Rows that pad the batch use the block that belongs to no request."""
        pad, nowhere = size - len(rows), self.kv.blocks
        batch = [tokens + [0] * pad, positions + [0] * pad, slots + [nowhere * self.kv.block_tokens] * pad]
        tables = padded([row.table for row in rows] + [array("i", [nowhere])] * pad)
        self.inputs[:, :size].copy_(torch.tensor(batch))
        self.pieces[:size].copy_(ints([(i, i, 1, p) for i, p in enumerate(batch[1])], "cpu"))
        self.tables[:size, : tables.shape[1]].copy_(tables)

    def run(self, tokens: list[int], positions: list[int], slots: list[int], rows: list[Row]) -> list[int]:
        size = min(n for n in self.graphs if n >= len(rows))
        self.fill(tokens, positions, slots, rows, size)
        graph, out = self.graphs[size]
        graph.replay()
        return out[: len(rows)].tolist()
