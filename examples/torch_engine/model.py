"""A decoder-only transformer of Llama's shape. It knows nothing of batches, KV memory or takt."""
from collections import namedtuple
from typing import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Shape = namedtuple("Shape", "layers width heads kv_heads head_width mlp_width vocab rope_base epsilon max_context",
                   defaults=(500_000.0, 1e-5, 8192))
SIZES = {
    "tiny": Shape(2, 64, 4, 2, 16, 128, 512, max_context=2048),
    "small": Shape(8, 512, 8, 4, 64, 1536, 8192),
    "1b": Shape(16, 2048, 32, 8, 64, 8192, 128_256),
    "8b": Shape(32, 4096, 32, 8, 128, 14_336, 128_256),
}

def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype) * weight

def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates each head's pairs (i, i + half) by the angle of the token's position."""
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)

def gated(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up

class Llama:
    """``weight(name, size)`` returns a weight by Hugging Face's name. Projections of the same input are merged."""

    def __init__(self, shape: Shape, weight: Callable[..., Tensor], compiled: bool = False) -> None:
        s = self.shape = shape
        q, kv = s.heads * s.head_width, s.kv_heads * s.head_width
        self.embedding, self.layers = weight("model.embed_tokens.weight", s.vocab, s.width), []
        for at in (f"model.layers.{i}." for i in range(s.layers)):
            qkv = [weight(f"{at}self_attn.{n}_proj.weight", size, s.width) for n, size in zip("qkv", (q, kv, kv))]
            gate_up = [weight(f"{at}mlp.{n}_proj.weight", s.mlp_width, s.width) for n in ("gate", "up")]
            norms = [weight(f"{at}{n}_layernorm.weight", s.width) for n in ("input", "post_attention")]
            out = weight(f"{at}self_attn.o_proj.weight", s.width, q)
            down = weight(f"{at}mlp.down_proj.weight", s.width, s.mlp_width)
            self.layers.append((norms[0], torch.cat(qkv), out, norms[1], torch.cat(gate_up), down))
        self.norm, self.head = weight("model.norm.weight", s.width), weight("lm_head.weight", s.vocab, s.width)
        self.dtype, self.device = self.head.dtype, self.head.device
        powers = torch.arange(0, s.head_width, 2, device=self.device) / -s.head_width
        angles = torch.arange(s.max_context, device=self.device)[:, None, None] * s.rope_base**powers
        self.cos, self.sin = angles.cos(), angles.sin()
        fused = (lambda f: torch.compile(f, dynamic=True)) if compiled else lambda f: f
        self.rms_norm, self.rotate, self.gated = fused(rms_norm), fused(rotate), fused(gated)

    @classmethod
    def random(cls, shape: Shape, seed: int = 0, dtype=torch.float32, device="cpu", compiled: bool = False) -> "Llama":
        dice = torch.Generator(device).manual_seed(seed)
        def weight(name: str, *size: int) -> Tensor:
            drawn = torch.randn(size, generator=dice, dtype=dtype, device=device)
            return drawn.fill_(1) if "norm" in name else drawn if "embed" in name else drawn.mul_(size[1] ** -0.5)
        return cls(shape, weight, compiled)

    @torch.inference_mode()
    def forward(self, tokens: Tensor, positions: Tensor, attend: Callable[..., Tensor]) -> Tensor:
        """Returns the last layer's output of each token. ``attend(layer, q, k, v)`` computes the attention. All tensors
        begin with the dimension of tokens."""
        s = self.shape
        x, cos, sin = self.embedding[tokens], self.cos[positions], self.sin[positions]
        for i, (norm, qkv, out, mlp_norm, gate_up, down) in enumerate(self.layers):
            mixed = F.linear(self.rms_norm(x, norm, s.epsilon), qkv).unflatten(-1, (-1, s.head_width))
            q, k, v = mixed.split([s.heads, s.kv_heads, s.kv_heads], 1)
            x = x + F.linear(attend(i, self.rotate(q, cos, sin), self.rotate(k, cos, sin), v).flatten(1), out)
            x = x + F.linear(self.gated(F.linear(self.rms_norm(x, mlp_norm, s.epsilon), gate_up)), down)
        return self.rms_norm(x, self.norm, s.epsilon)

    def logits(self, x: Tensor) -> Tensor:
        return F.linear(x, self.head).float()
