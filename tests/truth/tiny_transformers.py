"""Tiny networks with products of activations: attention in the forms that people write, normalisation, gates."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 8
SHAPE = (1, 4, 4)
"""Of the images; all networks end in three outputs."""


class Tokens(nn.Module):
    """Four patches, and a class token or none, through a block; then a mean or the class token, and a head."""

    def __init__(self, block: nn.Module, first: bool = False):
        super().__init__()
        self.patches, self.block, self.head = nn.Conv2d(1, WIDTH, 2, 2), block, nn.Linear(WIDTH, 3)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH)) if first else None
        self.positions = nn.Parameter(torch.randn(1, 4 + first, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], 1)
        tokens = self.block(tokens + self.positions)
        return self.head(tokens.mean(1) if self.token is None else tokens[:, 0])


class Attends(nn.Module):
    """x + attention of x, whose products are written by a function of queries, keys and values [B, heads, n, 4]."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor]):
        super().__init__()
        self.attend, self.inner, self.outer = attend, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        many = x.shape[1]
        query, key, value = self.inner(x).reshape(-1, many, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return x + self.outer(self.attend(query, key, value).transpose(1, 2).reshape(-1, many, WIDTH))


def by_matmul(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return ((query * 0.5) @ key.transpose(-2, -1)).softmax(-1) @ value


def by_einsum(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    shares = F.softmax(torch.einsum("bhnd,bhmd->bhmn", query, key), 2).transpose(2, 3)
    return torch.einsum("bhnm, bhmd -> bhnd", shares, value)


def by_bmm(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    query, key, value = (t.flatten(0, 1) for t in (query, key, value))
    return torch.bmm(torch.bmm(query, key.mT).softmax(-1), value).unflatten(0, (-1, 2))


def masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    mask = torch.arange(16.0).view(4, 4) / 8
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask.to(query) - 1, scale=0.7)


def causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class Gate(nn.Module):
    """Squeeze and excitation: channels times a sigmoid of their means."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gate, self.head = nn.Conv2d(1, 4, 2), nn.Linear(4, 4), nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        return self.head((x * torch.sigmoid(self.gate(x.mean((2, 3))))[:, :, None, None]).flatten(1))


class GatedUnit(nn.Module):
    """SwiGLU: silu(a) b."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(WIDTH, 12), nn.Linear(6, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.inner(x).chunk(2, -1)
        return x + self.outer(F.silu(a) * b)


class Squares(nn.Module):
    """x² + x y / (1 + y²), for halves x and y of the tokens' values."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.split(WIDTH // 2, -1)
        return torch.cat([a * a, a * b / (1 + b * b)], -1)


class Itself(nn.MultiheadAttention):
    """Attention of tokens to themselves."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        x = x if self.batch_first else x.transpose(0, 1)
        x = super().forward(x, x, x, need_weights=not self.batch_first)[0]
        return x if self.batch_first else x.transpose(0, 1)


def _convolved(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 2), norm, nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))


def _layer(**options: bool | str) -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=True, **options)  # type: ignore[arg-type]


TRANSFORMERS: dict[str, Callable[[], nn.Module]] = {
    "matmul": lambda: Tokens(Attends(by_matmul)),
    "einsum": lambda: Tokens(Attends(by_einsum)),
    "bmm": lambda: Tokens(Attends(by_bmm)),
    "masked": lambda: Tokens(Attends(masked)),
    "causal": lambda: Tokens(Attends(causal), first=True),
    "multihead": lambda: Tokens(Itself(WIDTH, 2, batch_first=True)),
    "multihead_weights": lambda: Tokens(Itself(WIDTH, 2)),
    "encoder_layer": lambda: Tokens(_layer(), first=True),
    "norm_first": lambda: Tokens(nn.Sequential(_layer(norm_first=True, activation="gelu"), nn.LayerNorm(WIDTH))),
    "layer_norm": lambda: Tokens(nn.LayerNorm(WIDTH)),
    "layer_norm_of_two_axes": lambda: Tokens(nn.LayerNorm([4, WIDTH])),
    "rms_norm": lambda: Tokens(nn.RMSNorm(WIDTH)),
    "group_norm": lambda: _convolved(nn.GroupNorm(2, 4)),
    "instance_norm": lambda: _convolved(nn.InstanceNorm2d(4, affine=True)),
    "gate": Gate,
    "gated_unit": lambda: Tokens(GatedUnit()),
    "squares": lambda: Tokens(Squares()),
}
