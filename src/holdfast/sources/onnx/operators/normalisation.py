"""Normalisations: by stored statistics, by those of a channel, a group or a token, by a norm, by neighbours."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import MICROSOFT, NotRead, axes_of, operator


@operator("BatchNormalization", weights=(1, 2))
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, outputs: int, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0, is_test: int = 1, spatial: int = 1, consumed_inputs: Any = None,
) -> Any:  # fmt: skip
    """(x - mean) scale / sqrt(variance + epsilon) + bias, channel by channel."""
    if training_mode or not spatial or outputs > 1:
        raise NotRead("a BatchNormalization in training, which learns from the batch: export it in eval mode")
    # Not in training, so that momentum is not read
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)


@operator("InstanceNormalization", weights=(1, 2))
def instance_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, consumed_inputs: Any = None
) -> Tensor:
    """Each channel of each image by its own mean and variance."""
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@operator("LayerNormalization", weights=(1, 2))
@operator("LayerNormalization", domain=MICROSOFT, weights=(1, 2))
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, outputs: int, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:  # fmt: skip
    """Over all axes from one on."""
    (first,) = axes_of(axis, x.ndim)
    shape = tuple(x.shape[first:])
    # Sizes may be symbols while a network is traced, which torch's own does not take
    if scale.shape == shape and (bias is None or bias.shape == shape) and all(isinstance(n, int) for n in shape):
        y = F.layer_norm(x, shape, scale, bias, epsilon)
    else:
        y = F.layer_norm(x, shape, None, None, epsilon) * scale
        y = y if bias is None else y + bias
    if outputs == 1:
        return y
    over = tuple(range(first, x.ndim))
    mean = x.mean(over, keepdim=True)
    variance = (x - mean).square().mean(over, keepdim=True)
    return y, mean, (variance + epsilon).rsqrt()


@operator("SkipLayerNormalization", domain=MICROSOFT, weights=(2, 3, 4))
def layer_norm_of_sum(
    x: Tensor, skip: Tensor, scale: Tensor, shift: Tensor | None = None, bias: Tensor | None = None, *, outputs: int,
    epsilon: float = 1e-12,
) -> Any:  # fmt: skip
    """The layer norm of a sum, and the sum as the fourth output."""
    total = x + skip if bias is None else x + skip + bias
    y = F.layer_norm(total, (x.shape[-1],), scale, shift, epsilon)
    return y if outputs == 1 else (y, None, None, total)


@operator("RMSNormalization", "SimplifiedLayerNormalization", weights=(1,))
@operator("SimplifiedLayerNormalization", domain=MICROSOFT, weights=(1,))
def rms_norm(
    x: Tensor, scale: Tensor, *, outputs: int, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """By the root of the mean square, over all axes from one on."""
    if outputs > 1:
        raise NotRead("the statistics of an RMSNormalization")
    over = tuple(range(axes_of(axis, x.ndim)[0], x.ndim))
    return x * (x.square().mean(over, keepdim=True) + epsilon).rsqrt() * scale


@operator("GroupNormalization", weights=(1, 2))
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, version: int, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Groups of channels of each image; scale and bias are of groups up to version 20, of channels from 21 on."""
    # Up to version 20 each group has one
    if version < 21:
        each = x.shape[1] // num_groups
        scale, bias = scale.repeat_interleave(each), bias.repeat_interleave(each)
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("GroupNorm", domain=MICROSOFT, weights=(1, 2))
def group_norm_fused(
    x: Tensor, scale: Tensor, bias: Tensor, *, groups: int, epsilon: float = 1e-5, activation: int = 0,
    channels_last: int = 1,
) -> Tensor:  # fmt: skip
    """Groups of channels, which may be the last axis, with x sigmoid(x) behind it where asked for."""
    # Channels to the second axis, and back
    y = F.group_norm(x.movedim(-1, 1) if channels_last else x, groups, scale, bias, epsilon)
    y = F.silu(y) if activation else y
    return y.movedim(1, -1) if channels_last else y


@operator("LpNormalization")
def by_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """By the p-norm along an axis; what is 0 stays 0."""
    size = torch.linalg.vector_norm(x, ord=p, dim=axis, keepdim=True)
    return x / torch.where(size == 0, torch.ones_like(size), size)


@operator("MeanVarianceNormalization")
def by_mean_and_variance(
    x: Tensor, *, axes: Any = (0, 2, 3), across_channels: int = 0, normalize_variance: int = 1
) -> Tensor:
    """By mean and variance over axes: by those that are named, which of old versions are those of pictures."""
    if not normalize_variance:
        raise NotRead("a MeanVarianceNormalization without variance")
    over = tuple(axes_of(list(axes), x.ndim))
    centred = x - x.mean(over, keepdim=True)
    # 1e-9 is added to the root, as in the definition
    return centred / (centred.square().mean(over, keepdim=True).sqrt() + 1e-9)


@operator("LRN")
def by_neighbours(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """X / (bias + alpha / size · the sum of squares of neighbouring channels)^beta."""
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    # [N, 1, C, rest]: channels as rows of a picture
    flat = x.square().flatten(2)[:, None]
    # With 1 as the divisor a mean is a sum; outside there are zeros
    sums = F.avg_pool2d(F.pad(flat, (0, 0, before, after)), (size, 1), stride=1, divisor_override=1)[:, 0]
    return x / (bias + alpha / size * sums).view(x.shape).pow(beta)
