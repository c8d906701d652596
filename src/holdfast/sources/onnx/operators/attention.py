"""Attention and turned positions, as ONNX has them since version 23."""

import math
from typing import Any

import torch
from torch import Tensor

from holdfast.sources.onnx.operator import MICROSOFT, NotRead, operator


@operator("Attention")
def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, past_key: Any = None, past_value: Any = None,
    lengths: Any = None, *, outputs: int, is_causal: int = 0, kv_num_heads: int = 0, q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0, softmax_precision: int = 0,
    left_window_size: int = -1, right_window_size: int = -1,
) -> Tensor:  # fmt: skip
    """softmax(scale q k' + mask) v, head by head; keys of fewer heads serve several queries."""
    if past_key is not None or past_value is not None or lengths is not None or outputs > 1:
        raise NotRead("an Attention with what it has seen before, of several lengths, or with further outputs")
    if left_window_size >= 0 or right_window_size >= 0:
        raise NotRead("an Attention in a window")
    # [N, T, heads · d], and [N, heads, T, d] otherwise
    flat = query.ndim == 3
    q, k, v = (
        _heads(x, heads) if flat else x
        for x, heads in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads))
    )
    # Grouped queries: each head of keys serves several
    if q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    # The root of the scale on both sides, as ONNX defines it, keeps products in range
    root = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = (q * root) @ (k * root).mT
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if is_causal:
        # True above the diagonal
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    shares = scores.softmax(-1)
    if is_causal or mask is not None:  # who may look at nothing sees 0
        shares = shares.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)
    y = shares @ v
    return y.transpose(1, 2).flatten(2) if flat else y


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return [N, T, heads · d] as [N, heads, T, d]."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


@operator("RotaryEmbedding")
def rotate(
    x: Tensor, cosines: Tensor, sines: Tensor, places: Tensor | None = None, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Tensor:  # fmt: skip
    """Pairs of numbers turned by an angle for each place."""
    flat = x.ndim == 3
    y = x.unflatten(2, (num_heads, -1)) if flat else x.transpose(1, 2)  # [N, T, heads, d]
    width = rotary_embedding_dim or y.shape[-1]
    turned, kept = y[..., :width], y[..., width:]
    if places is not None:
        cosines, sines = cosines[places], sines[places]
    # [N, T, 1, d / 2], the same for all heads
    cosines, sines = (t[..., : width // 2].unsqueeze(-2) for t in (cosines, sines))
    # Neighbours are a pair, or the first half and the second
    first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    # (first + i second) · e^(iφ)
    real, imaginary = cosines * first - sines * second, sines * first + cosines * second
    turned = torch.stack([real, imaginary], -1).flatten(-2) if interleaved else torch.cat([real, imaginary], -1)
    y = torch.cat([turned, kept], -1)
    return y.flatten(2) if flat else y.transpose(1, 2)


@operator("MultiHeadAttention", domain=MICROSOFT)
def attend_fused(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None, mask: Any = None,
    added: Tensor | None = None, past_key: Any = None, past_value: Any = None, *, outputs: int, num_heads: int,
    scale: float = 0.0, mask_filter_value: float = -10000.0, unidirectional: int = 0,
) -> Tensor:  # fmt: skip
    """softmax(scale q k' + added) v of [N, T, heads · d]."""
    if (
        mask is not None
        or past_key is not None
        or past_value is not None
        or outputs > 1
        or key is None
        or key.ndim != 3
    ):
        raise NotRead("a MultiHeadAttention with a mask, with what it has seen before, or packed")
    if bias is not None:
        # Biases of queries, keys and values in a row
        width = query.shape[-1]
        query, key, value = query + bias[:width], key + bias[width : 2 * width], value + bias[2 * width :]
    return attend(
        query, key, value, added, outputs=1, is_causal=unidirectional, q_num_heads=num_heads, kv_num_heads=num_heads,
        scale=scale or None,
    )  # fmt: skip
