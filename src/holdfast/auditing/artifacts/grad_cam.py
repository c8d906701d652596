"""Where an encoder looks: Grad-CAM maps of a representation, or of anything linear in it; without labels too."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core import Encoder, Images, Passes, Reps
from holdfast.numerics.geometry.positions import Arrangement, arrangement
from holdfast.runtime.errors import Unsupported, unknown

Maps = Float[Tensor, "batch rows columns"]


@dataclass(frozen=True)
class Attention:
    """How much each position of a layer speaks for a direction of the representation.

    Attributes:
        maps: at least 0, in units of the score, [B, h, w].
        layer: the module that has these positions.
    """

    maps: Maps
    layer: str

    def upsample(self, height: int, width: int) -> Maps:
        """Return the maps at the size of the image, interpolated, [B, height, width]."""
        size = (height, width)
        return F.interpolate(self.maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]


@dataclass(frozen=True)
class _Output:
    """What a module gave, and how that becomes [B, C, h, w]."""

    name: str
    values: Tensor
    arrangement: Arrangement


def attention(encoder: Encoder, x: Images, directions: Reps, layer: str | None = None) -> Attention:
    """Return ReLU(Σ_k w_k A_k) with w_k = mean over positions of ∂s/∂A_k, for s = <direction, f(x)> of each image.

    A is the last layer with positions through which f depends on them. Behind the class token of a transformer that
    is the last but one block, for the last one's patches are read by nothing.

    The direction may be the row of a linear head (a class's logit), or the image's own clean representation, less the
    mean of all: then no label is asked what makes this representation what it is. The cosine to f(x) would not do, for
    its gradient is 0 at the image itself.

    One pass forward, and one backward that ends at the layer (counted as a whole one).

    Source: Selvaraju et al. (2017), "Grad-CAM: visual explanations from deep networks via gradient-based localization".
    """
    if encoder.draws is not None:
        raise Unsupported(
            f"attention: expected an encoder without random numbers, but {encoder.name!r} is the mean of "
            f"{encoder.draws} draws, each with maps of its own; switch them off and leave draws out"
        )
    # Forward: record the outputs that have positions, and the score s
    chosen = None if layer is None else _resolve_layer(encoder, layer)
    with encoder.plainly(), torch.enable_grad(), _record_outputs(encoder, x, chosen) as outputs:
        reps = encoder(x.detach().requires_grad_())
        score = (reps * directions.to(reps)).sum()
    if not outputs:
        where = "no layer of it has any" if chosen is None else f"layer {chosen!r} has none"
        raise Unsupported(
            f"attention: expected positions in {encoder.name!r}, as in [batch, channel, h, w] or in the tokens of "
            f"patches, but {where}; maps need a convolutional network or a transformer"
        )
    if not score.requires_grad:
        raise Unsupported(f"attention: {encoder.name!r} gives no gradients; maps need an encoder that does")

    # Backward to the last of them that s depends on: weights w_k, and the maps ReLU(Σ_k w_k A_k)
    encoder.count(Passes(backward=len(x)))
    for output in reversed(outputs):
        (slope,) = torch.autograd.grad(score, output.values, retain_graph=True, allow_unused=True)
        if slope is not None and bool((gradient := output.arrangement.features(slope)).any()):
            weights = gradient.mean((2, 3), keepdim=True)
            maps = (weights * output.arrangement.features(output.values)).sum(1).relu()
            return Attention(maps.detach().float(), output.name)
    raise Unsupported(
        f"attention: expected a score that depends on a layer with positions, but its gradient is 0 in "
        f"{', '.join(dict.fromkeys(output.name for output in reversed(outputs)))}"
    )


def _resolve_layer(encoder: Encoder, layer: str) -> str:
    """Return the whole name of a module by its end; the shortest where several have it."""
    names = [name for name, _ in encoder.module.named_modules() if name]
    matches = [name for name in names if name == layer or name.endswith(f".{layer}")]
    if not matches:
        raise unknown("layer", layer, names)
    return min(matches, key=len)


@contextmanager
def _record_outputs(encoder: Encoder, x: Images, layer: str | None) -> Iterator[list[_Output]]:
    """Fill a list with the outputs that have positions, in the order of the pass."""
    outputs: list[_Output] = []
    grids: list[tuple[int, int]] = []  # of feature maps so far: patches are usually made by a convolution

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            value = output[0] if isinstance(output, (tuple, list)) and output else output
            if not isinstance(value, Tensor) or len(value) != len(x) or not value.is_floating_point():
                return
            places = arrangement(value.shape, (x.shape[2], x.shape[3]), grids)
            if places is not None and value.ndim == 4:
                grids.append((places.rows, places.columns))
            if places is not None and (name == layer or (layer is None and _is_a_layer(module, value))):
                outputs.append(_Output(name, value, places))

        return hook

    # Before other hooks: one of them may end the pass at its layer.
    handles = [
        module.register_forward_hook(watch(name), prepend=True) for name, module in encoder.module.named_modules()
    ]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def _is_a_layer(module: nn.Module, value: Tensor) -> bool:
    """Whether a module is looked at: of transformers, blocks and not the parts of one (queries and keys are no map)."""
    if isinstance(module, (nn.Identity, nn.Dropout)):
        return False
    return value.ndim == 4 or any(True for _ in module.children())
