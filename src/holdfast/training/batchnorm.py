"""Whose statistics BatchNorm takes: of all images alike, of attacked and clean ones apart, or of nobody."""

import copy
from collections.abc import Callable, Collection
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from holdfast.core import Encoder
from holdfast.core.student import ATTACKED
from holdfast.runtime.distributed import processes
from holdfast.runtime.errors import Mismatch, Unsupported
from holdfast.runtime.network import copy_of
from holdfast.sources.encoders.shared.copies import copy_encoder


def wrap_batchnorm(encoder: Encoder, kind: str, still: Collection[nn.Module] = ()) -> Encoder:
    """Return a trainable encoder whose BatchNorm layers behave as asked in training; in eval mode they are themselves.

    Args:
        encoder: which is changed.
        kind: "shared", "split" or "frozen".
        still: layers that are frozen, whatever the others do.

    Source: Ioffe and Szegedy (2015); Xie et al. (2020), "Adversarial examples improve image recognition" (AdvProp);
    Jiang et al. (2020), "Robust pre-training by adversarial contrastive learning" (ACL).
    """

    def around(layer: nn.Module) -> nn.Module:
        if layer in still:
            return _Frozen(layer)
        if not isinstance(layer, _BatchNorm):  # an InstanceNorm has statistics too, but mixes no images
            return layer
        if kind == "shared" and processes() == 1:  # torch does this already
            return layer
        if layer.running_mean is None:
            raise Unsupported(
                f"encoder {encoder.name!r}: expected BatchNorm layers with running statistics for batchnorm={kind}, "
                "got some without; train in one process with batchnorm=shared"
            )
        if kind == "frozen":
            return _Frozen(layer)  # nothing is measured that processes could share
        # Each half of a split layer is measured over all processes: the parting is outside, the sharing inside
        own = _Synced(layer) if processes() > 1 else layer
        return _Split(own) if kind == "split" else own

    encoder.module = _replace_layers(encoder.module, _NormBase, around)
    return encoder


def unwrap_batchnorm(encoder: Encoder, module: nn.Module | None = None) -> Encoder:
    """Return a frozen copy with the plain layers again, whose tensors are named as they were."""
    network = copy_of(encoder.module if module is None else module)
    return copy_encoder(encoder, _replace_layers(network, _Around, lambda layer: cast(_Around, layer).plain))


def _replace_layers(network: nn.Module, kind: type, change: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """Return a network with all layers of a kind replaced; one that stands in several places stays one."""
    layers: dict[nn.Module, nn.Module] = {}

    def walk(module: nn.Module) -> nn.Module:
        if module not in layers:
            # A layer that stands in several places is replaced once, by one object
            layers[module] = change(module) if isinstance(module, kind) else module
            # What replaces a layer holds it: to walk on into that would wrap the layer in itself
            if layers[module] is module:
                # A list, for the loop changes what it goes through
                for name, child in list(module._modules.items()):
                    if child is not None and walk(child) is not child:
                        module.register_module(name, layers[child])
        return layers[module]

    return walk(network)


class _Around(nn.Module):
    """A BatchNorm layer, or a subclass with an activation inside, that behaves in another way while it is trained."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    @property
    def plain(self) -> nn.Module:
        """The layer itself."""
        return self.layer.plain if isinstance(self.layer, _Around) else self.layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class _Frozen(_Around):
    """Stays in eval mode: statistics do not move; scale and shift learn, unless their weights are frozen."""

    def train(self, mode: bool = True) -> "_Frozen":
        super().train(mode)
        self.layer.eval()  # after `super().train`, which has just put it in training mode
        return self


class _Split(_Around):
    """Attacked rows, the last ones, pass through the layer, and clean ones beside them through a twin."""

    def __init__(self, layer: nn.Module):
        super().__init__(layer)
        self.clean = copy.deepcopy(layer)

    def forward(self, x: Tensor) -> Tensor:
        attacked, views = ATTACKED.get()
        if not self.training and not attacked:  # an attack sees the layer of attacked images alone
            return self.layer(x)
        if len(x) % views:
            raise Mismatch(
                f"batchnorm=split: expected rows of {views} views in equal numbers, got {len(x)}, in a layer that "
                "mixes images; use shared or frozen"
            )
        # Views lie one after the other in equal numbers of rows, the attacked ones last
        rows = len(x) // views * attacked
        parts = zip((self.clean, self.layer), x.split([len(x) - rows, rows]), strict=True)
        # A part without rows has no variance
        return torch.cat([layer(part) for layer, part in parts if len(part)])


class _Synced(_Around):
    """Normalises by mean and variance of the rows of all processes, each of which holds equally many.

    Torch's own layer for this is made for GPUs, and forgets what a subclass does beside normalising.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.layer(x)
        layer = cast(_BatchNorm, self.layer)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        # mean and variance over the batches of all processes
        # At least float32: the square of a float16 overflows, and means over many rows lose digits
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        # All axes but the channels of [B, C, ...]; `shape` lays a [C] along them
        axes, shape = [0, *range(2, x.ndim)], (1, -1, *[1] * (x.ndim - 2))
        # A mean of means, since processes hold equally many rows
        mean = _Mean.apply(wide.mean(axes))
        centred = wide - mean.view(shape)
        # E(x - mean)² and not E(x²) - mean², which cancels where the mean is large
        var = _Mean.apply(centred.square().mean(axes))
        # running statistics, as torch keeps them
        with torch.no_grad():
            assert layer.num_batches_tracked is not None
            layer.num_batches_tracked += 1
            # Without momentum, the mean of all batches so far
            share = 1 / int(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
            rows = processes() * x.numel() / x.shape[1]
            layer.running_mean.lerp_(mean.to(layer.running_mean), share)
            # The unbiased variance is kept, n / (n - 1) times the one that normalises
            layer.running_var.lerp_((var * rows / (rows - 1)).to(layer.running_var), share)
        unit = (centred * (var + layer.eps).rsqrt().view(shape)).to(x.dtype)
        # The layer's own normalisation becomes the identity: its mean is 0, its variance 1 - ε, to which it adds ε
        still = {"running_mean": torch.zeros_like(mean), "running_var": torch.full_like(var, 1 - layer.eps)}
        layer.eval()  # the layer adds scale, shift and whatever else it does to what is normalised already
        return functional_call(layer, still, (unit,))


class _Mean(torch.autograd.Function):
    """The mean over processes; its gradient is the mean of theirs, as every process's loss reads it."""

    @staticmethod
    def forward(ctx: object, own: Tensor) -> Tensor:
        total = own.detach().clone()
        dist.all_reduce(total)
        return total / processes()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total / processes()
