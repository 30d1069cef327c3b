"""A dense network, a residual network and a small transformer, each with ten outputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

OUTPUTS = 10
TOKENS, VOCABULARY = 32, 64


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(a, b, 3, stride, 1, bias=False),
            nn.Conv2d(b, b, 3, 1, 1, bias=False),
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(b), nn.BatchNorm2d(b)])
        self.short = nn.Conv2d(a, b, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        return torch.relu(y + self.short(x))


class Block(nn.Module):
    """Attention that looks back, and a dense layer, each after a layer norm."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.body = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        parts = self.qkv(self.before(x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, t, d))
        return x + self.body(self.between(x))


class GPT(nn.Module):
    """Tokens to ten numbers, read at the last token."""

    def __init__(self, d: int = 64, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, d)
        self.places = nn.Parameter(0.02 * torch.randn(TOKENS, d))
        self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(layers)), nn.LayerNorm(d))
        self.head = nn.Linear(d, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.tokens(x) + self.places)[:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()), nn.Linear(512, OUTPUTS)
    )


def resnet() -> nn.Module:
    stem = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
    blocks = Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)
    return nn.Sequential(
        *stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, OUTPUTS)
    )


def numbers(*shape: int) -> Callable[[int], Tensor]:
    return lambda n: torch.randn(n, *shape)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {
    "MLP": (mlp, numbers(256)),
    "ResNet": (resnet, numbers(3, 16, 16)),
    "GPT": (GPT, lambda n: torch.randint(0, VOCABULARY, (n, TOKENS))),
}
