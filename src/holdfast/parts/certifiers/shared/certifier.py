"""What the certifiers by bound propagation have in common: input checks, float64, rounding, vacuity."""

from abc import abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from holdfast.core import Ball, Bound, Certifier, Encoder, Images, Margin, Passes, PerImage, Rows
from holdfast.core.precision import use_precision
from holdfast.numerics.bounds.backward import Region, backward, boxes
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.footprint import ROWS, footprint
from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.network import SMALLEST_NORM, Network
from holdfast.numerics.bounds.relaxation import LinearRelaxation
from holdfast.numerics.bounds.rounding import SLACK, rounding
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Mismatch, NotCertified, NotFinite


class Propagation(Certifier):
    """A certifier that propagates bounds through the traced network.

    The bound that is reported is computed in float64, whatever was used to look for good relaxations. From it
    `slack` is subtracted, see `rounding`. Weights and pixels are taken as the float32 numbers that they are; the
    encoder's own float32 arithmetic may differ from the exact function that is bounded by its usual rounding.

    Where the encoder divides its representation u by ||u||, rows without bias are bounded on u: a bound L > 0 of u is
    L / max ||u|| (by its ranges and interval arithmetic) for the margin, and any other says nothing: -||weights||.
    """

    def __call__(self, encoder: Encoder, margin: Margin, x: Images, ball: Ball, radii: PerImage | None = None) -> Bound:
        """Bound the margins of every image from below, see `Certifier`."""
        # slopes are looked for in float32, which CUDA's convolutions would shorten
        with use_precision("float32", x.device):
            network, region, margin = prepare(encoder, margin, x, ball, radii)
            lower, ranges = self.bound_rows(network.double, margin, region)
            bound = finish_bound(network.double, margin, region, lower, ranges)
        encoder.count(Passes(bounds=len(x)))  # after the work: listeners treat the count as progress
        return bound

    @torch.no_grad()
    def bound_rows(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds of the margin, [B, R], as `lower` does; of an encoder that normalises, times ||u||.

        There the bias of a row counts ||u|| times. A negative one is taken as often as the norm can be at most, a
        positive one never: what is left is below the truth.
        """
        if network.normalised is None:
            return self.lower(network, margin, region, held)
        lower, ranges = self.lower(network, Margin(margin.weights, torch.zeros_like(margin.bias)), region, held)
        return lower + margin.bias.clamp_max(0) * find_longest(network, region, ranges), ranges

    @abstractmethod
    def lower(
        self, network: Network, margin: Margin, region: Region, held: Mapping[int, Box] | None = None
    ) -> tuple[Tensor, dict[int, Box]]:
        """Return lower bounds [B, R] and the ranges behind them, in the precision of what comes in.

        Args:
            network: the traced network.
            margin: [B, R] rows; B may be 1 for all images of the region.
            region: where the images may be.
            held: ranges that hold besides, such as those of a larger region around the same image.
        """

    def bounds_of(self, network: Network, x: Images, ball: Ball, radii: PerImage) -> Callable[[Margin], Rows]:
        """Return the lower bounds of margins with their gradients; where lines touch a smooth curve is held fixed."""
        if not self.differentiable:
            return super().bounds_of(network, x, ball, radii)
        region = Region.around(ball, x, radii).to(network.dtype)
        return lambda margin: self.lower(network, margin, region)[0]

    def searching(self) -> "Propagation":
        """Return the certifier for one search: many radii around one image, the same rows; it may remember slopes."""
        return self

    def beginning(self) -> "Propagation | None":
        """Return a cheaper certifier whose radii a search begins with; None: it begins anywhere."""
        return None


def prepare(
    encoder: Encoder, margin: Margin, x: Images, ball: Ball, radii: PerImage | None = None
) -> tuple[Network, Region, Margin]:
    """Return network, region and margin in float64.

    Raises:
        HoldfastError: images outside [0, 1] or NaN, radii that are negative, margins that do not fit, margins with a
            bias for an encoder that normalises its output.
    """
    if x.ndim == 4 and not x.numel():
        raise BadValue(f"certifiers take at least one image with pixels, got {list(x.shape)}: give some")
    if x.ndim != 4 or not bool(((x >= 0) & (x <= 1)).all()):
        raise BadValue("certifiers take images [B, C, H, W] with pixels in [0, 1]; these are not (or hold NaN)")
    encoder._check_input(x)
    # NaN for a ball without a radius, which is refused below
    if radii is None:
        radii = torch.full((len(x),), getattr(ball, "radius", torch.nan), dtype=torch.float64)
    if not bool(((radii >= 0) & radii.isfinite()).all()) or len(radii) != len(x):
        raise BadValue(f"certifiers take one finite radius >= 0 in pixels for each image, got {radii.tolist()[:5]}")
    # the network that the encoder computes, and rows that fit its representation
    network = trace(encoder, tuple(x.shape[1:]))
    dim = network.nodes[-1].shape
    if (margin.weights.shape[0], *margin.weights.shape[2:]) != (len(x), *dim):
        raise Mismatch(
            f"the margin has weights {list(margin.weights.shape)}, expected [{len(x)}, rows, {dim[0]}] for {len(x)} "
            f"images and the {dim[0]}-d representation of {encoder.name!r}"
        )
    if not bool(torch.isfinite(margin.weights).all() and torch.isfinite(margin.bias).all()):
        raise NotFinite("the margin is NaN or infinite: is a representation zero, or not finite?")
    if network.normalised is not None and bool((margin.bias.abs() > 1e-5 * margin.weights.norm(dim=2)).any()):
        raise NotCertified(
            f"not certified: {network.normalised} of encoder {encoder.name!r} normalises the representation; only "
            "margins without a bias (cosine) can be bounded through it"
        )
    # the bound is one of real numbers: float64, and radii rounded outward
    return network, Region.around(ball, x, radii.to(x.device)), margin.to(torch.float64)


def finish_bound(network: Network, margin: Margin, region: Region, lower: Tensor, ranges: Mapping[int, Box]) -> Bound:
    """Return the bound with its slack subtracted, and whether it says more than interval arithmetic on all images."""
    trivial, slack = on_all_images(network, margin, region), rounding(network, margin, region, ranges)
    lower = lower - slack
    if network.normalised is not None:
        # w · u >= L > 0 and ||u|| <= length give w · u / ||u|| >= L / length. A negative L would have to be
        # divided by the least ||u||, which may be 0; of unit vectors -||w|| always holds.
        length = find_longest(network, region, ranges)
        trivial = margin.bias - margin.weights.norm(dim=2)
        lower, slack = torch.where(lower > 0, lower / length, trivial), slack / length
    vacuous = ~torch.isfinite(lower) | (lower <= trivial)
    return Bound(torch.where(torch.isfinite(lower), lower, -torch.inf), vacuous, slack)


@torch.no_grad()
def find_longest(network: Network, region: Region, ranges: Mapping[int, Box]) -> Tensor:
    """Return an upper bound of the norm by which the encoder divides its representation, [B, 1]."""
    # The farthest corner of the box of u; the encoder itself divides by no less than SMALLEST_NORM
    low, high = boxes(network, region, ranges)[len(network.nodes) - 1]
    return torch.maximum(low.abs(), high.abs()).norm(dim=1, keepdim=True).clamp_min(SMALLEST_NORM) * (1 + SLACK)


@torch.no_grad()
def on_all_images(network: Network, margin: Margin, region: Region) -> Tensor:
    """Return lower bounds that hold for every image in [0, 1], by interval arithmetic, [B, R]."""
    # in ℓ∞ at radius 1, whatever the ball is: a network without an activation is bounded at the pixels by the ball
    box = (torch.zeros_like(region.x), torch.ones_like(region.x))
    everywhere = Region(Linf(1.0), region.x, torch.ones_like(region.radii), box)
    return propagate_backward(network, margin, everywhere, boxes(network, everywhere), {}, stop=True)


def propagate_backward(
    network: Network,
    margin: Margin,
    region: Region,
    ranges: Mapping[int, Box],
    relaxations: Mapping[int, LinearRelaxation],
    stop: bool = False,
) -> Tensor:
    """Return lower bounds of a margin, [B, R], by one pass backwards, of as many rows at a time as fit in memory."""
    node, rows = start(network, margin)
    # Memory peaks at the node where a row has most coefficients
    room = max(1, ROWS // (footprint(network, node).widest * len(region.x)))
    bounds = [
        backward(network, node, Dense(some), region, ranges, relaxations, stop=stop)
        for some in rows.coefs.split(room, dim=1)
    ]
    return torch.cat(bounds, 1) + margin.bias


def not_below_intervals(
    bound: Tensor, network: Network, margin: Margin, region: Region, ranges: Mapping[int, Box]
) -> Tensor:
    """Return the larger of bounds of a margin, [B, R], and those of interval arithmetic on the last ranges.

    A line is only near where it touches, so over wide ranges the ends of a range prove more, such as below an ELU.
    """
    return torch.fmax(bound, propagate_backward(network, margin, region, ranges, {}, stop=True))


def start(network: Network, margin: Margin) -> tuple[int, Dense]:
    """Return the node at which backward propagation of a margin begins, and its rows."""
    return len(network.nodes) - 1, Dense(margin.weights)


def rows_of(margin: Margin, image: int) -> Margin:
    """Return the rows of one image, with a batch of one; a margin with a batch of one holds for all images."""
    return margin.part(slice(image, image + 1) if len(margin.bias) > 1 else slice(0, 1))
