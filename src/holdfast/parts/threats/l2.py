"""The ℓ2 ball: the whole image may move by a Euclidean distance of up to ε."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Images, PerImage, Rng
from holdfast.core.threat import round_down, towards
from holdfast.runtime.errors import BadValue
from holdfast.runtime.rounding import PIXELS
from holdfast.runtime.waiting import move_to

PRICES = 50
"""Values of λ that `L2.least` tries at most; it ends at the best one, mostly after two to five."""

SCALINGS = 5
"""Rounds in which `L2.inside` looks for the length at which pixels on the box leave the radius used up."""

TINY = 1e-30


@dataclass(frozen=True)
class L2(Ball):
    """All images with ||x' - x||_2 <= radius, inside [0, 1].

    Attributes:
        radius: ε, the Euclidean norm in pixels of a [0, 1] image, positive.

    Source: Madry et al. (2018).

    Example:
        >>> [round(v, 4) for v in L2(1.0).project(torch.tensor([[[[3.0, 4.0]]]])).flatten().tolist()]
        [0.6, 0.8]
    """

    radius: float = 1.0
    symbol: ClassVar[str] = "ℓ2"

    def __post_init__(self) -> None:
        if not 0 < self.radius < float("inf"):
            raise BadValue(f"l2 radius: expected a positive length in pixels of a [0, 1] image, got {self.radius}")

    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw uniformly from the ball around each image (radius · u^(1/d) in a random direction), clamped."""
        # A normal vector has a uniform direction; volumes grow as the d-th power of the length
        direction = self.ascend(move_to(rng.child("direction").normal(*x.shape[1:]), x))
        length = move_to(rng.child("length").uniform(1, 1, 1), x) ** (1 / x[0].numel())
        return towards(x, self.project(self.radius * length * direction))

    def project(self, delta: Images) -> Images:
        """Shorten every perturbation that is longer than the radius, less what rounding may add to it again."""
        # Zero stays zero: the clamp alone keeps 0 / 0 away
        norm = self.size(delta).clamp_min(1e-30).view(-1, 1, 1, 1)
        return delta * (self._reach(delta) / norm).clamp_max(1)

    def _reach(self, x: Tensor) -> float:
        """Return the radius less 8 roundings of a precision, more than a norm and a product take."""
        return round_down(self.radius * (1 - 8 * torch.finfo(x.dtype).eps), x.dtype)

    def inside(self, x: Images, delta: Images, radii: PerImage) -> Images:
        """Return clip(x + s delta) for the largest s <= 1 that the balls allow, about.

        Where pixels end on the box, shortening delta first and clipping then would use up less than the radius.
        """
        scale = torch.ones_like(radii)
        for _ in range(SCALINGS):
            # ||clip(x + s delta) - x||² = s² (pixels inside) + (pixels on the box)
            scaled = delta * scale.view(-1, 1, 1, 1)
            moved = (x + scaled).clamp(0, 1) - x
            # Pixels that the box did not stop; of the others the length no longer grows with s
            free = (moved - scaled).abs() <= PIXELS
            stopped = self.size(moved.masked_fill(free, 0))
            going = self.size(moved.masked_fill(~free, 0)).clamp_min(TINY)
            scale = (scale * (radii.square() - stopped.square()).clamp_min(0).sqrt() / going).clamp_max(1)
        # The rounds end near the radius on either side: what is too long is shortened
        moved = (x + delta * scale.view(-1, 1, 1, 1)).clamp(0, 1) - x
        return x + moved * (radii / self.size(moved).clamp_min(TINY)).clamp_max(1).view(-1, 1, 1, 1)

    def ascend(self, gradient: Images) -> Images:
        """Return gradient / ||gradient||_2 (zero where the gradient is zero)."""
        return gradient / self.size(gradient).clamp_min(1e-30).view(-1, 1, 1, 1)

    def squash(self, u: Float[Tensor, "*batch channel height width"]) -> Float[Tensor, "*batch channel height width"]:
        """Return radius · tanh(||u||_2 / √d) u / ||u||_2: the length is squashed, the direction kept.

        Divided by √d, numbers of size one reach the inside of the ball, and not its sphere alone.
        """
        norm = u.square().sum((-3, -2, -1), keepdim=True).clamp_min(1e-30).sqrt()
        return u * (self._reach(u) * (norm / math.prod(u.shape[-3:]) ** 0.5).tanh() / norm)

    def size(self, delta: Images) -> PerImage:
        """Return ||delta||_2 of each image: row by row, because sums of 10⁵ squares lose digits in float32."""
        return delta.norm(dim=-1).flatten(1).norm(dim=1)

    def least(
        self,
        slopes: Float[Tensor, "*#batch rows pixels"],
        x: Float[Tensor, "*batch pixels"],
        box: tuple[Float[Tensor, "*batch pixels"], Float[Tensor, "*batch pixels"]],
        radii: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch rows"]:
        """Return the best of the box's bound and of max_λ min_{x' in box} slopes · x' + λ/2 (||x' - x||² - radius²).

        Every λ >= 0 gives a valid bound. The first one is that of the ball without its box, ||slopes|| / radius; each
        next one leaves out the pixels that ended on the box, until they are the same again: that λ is the best.
        """
        low, high = (box[0] - x)[..., None, :], (box[1] - x)[..., None, :]
        all_slopes, slopes = slopes, slopes * (high > low)  # pixels that cannot move take no part in the search
        # Shapes: slopes and steps [*, R, pixels], room and prices [*, R]
        room = radii[..., None].square()
        corner = torch.where(slopes > 0, low, high)
        with torch.no_grad():  # the step is the minimiser, so the bound's derivative is the step itself
            # λ = 0 asks for the box alone, and its minimiser is a corner
            best, best_price = (slopes * corner).sum(-1), torch.zeros_like(room)
            price = slopes.norm(dim=-1) / room.sqrt().clamp_min(TINY)
            for _ in range(PRICES):
                # For one λ pixels are independent: the minimiser is -slopes / λ, clipped to the box
                step = (-slopes / price.clamp_min(TINY)[..., None]).clamp(low, high)
                edge = (step == low) | (step == high)
                bound = (slopes * step).sum(-1) + price / 2 * (step.square().sum(-1) - room)
                best, best_price = torch.maximum(best, bound), torch.where(bound > best, price, best_price)
                # The next λ makes the pixels that are inside use up what those on the
                # box's edge leave of the radius
                left = room - (step.square() * edge).sum(-1)
                last, price = price, (slopes * ~edge).norm(dim=-1) / left.clamp_min(TINY).sqrt()
                if torch.equal(price, last):
                    break
            step = (-slopes / best_price.clamp_min(TINY)[..., None]).clamp(low, high)
            # At the best λ again, for the value; with λ = 0 the quotient says nothing
            step = torch.where(best_price[..., None] > 0, step, corner)
            cost = best_price / 2 * (step.square().sum(-1) - room)
        return (slopes * step).sum(-1) + cost + (all_slopes @ x[..., None]).squeeze(-1)
