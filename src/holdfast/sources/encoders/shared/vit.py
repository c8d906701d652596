"""A small vision transformer for 32x32 images."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Tokens = Float[Tensor, "batch token dim"]


class _Block(nn.Module):
    def __init__(self, dim: int, heads: int, mlp: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, mlp), nn.GELU(), nn.Dropout(dropout), nn.Linear(mlp, dim), nn.Dropout(dropout)
        )
        self.dropout = dropout

    def forward(self, x: Tokens) -> Tokens:
        batch, tokens, dim = x.shape
        # [B, T, 3 · D] to three of [B, heads, T, D / heads]
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        # [B, heads, T, D / heads] back to [B, T, D]
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, dim))
        return x + self.mlp(self.norm2(x))


class SmallViT(nn.Module):
    """A pre-norm vision transformer; the output is the normalised class token.

    The defaults are Table D.1 of Zhong et al. (see `_networks`): 32x32 images, patches of 4, dim 512, depth 6, heads 8.

    Args:
        image: side of the input, pixels.
        patch: side of a patch, pixels.
        dim: width of the tokens and of the representation.
        depth: blocks.
        heads: attention heads.
        mlp: width of the hidden layer of each block.
        dropout: dropout in the blocks while training.
        emb_dropout: dropout after the position embedding while training.
    """

    def __init__(
        self,
        image: int = 32,
        patch: int = 4,
        dim: int = 512,
        depth: int = 6,
        heads: int = 8,
        mlp: int = 512,
        dropout: float = 0.1,
        emb_dropout: float = 0.1,
    ):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim))
        self.dropout = nn.Dropout(emb_dropout)
        self.blocks = nn.Sequential(*(_Block(dim, heads, mlp, dropout) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """Map normalised images [B, 3, image, image] to [B, dim]."""
        # [B, D, H / p, W / p] to [B, patches, D]
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        # The class token first, at position 0
        tokens = torch.cat([self.cls.expand(x.shape[0], -1, -1), tokens], dim=1) + self.position
        return self.norm(self.blocks(self.dropout(tokens)))[:, 0]
