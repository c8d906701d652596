"""The ℓ∞ ball: every pixel may change by up to ε."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Images, PerImage, Rng
from holdfast.core.threat import round_down, towards
from holdfast.numerics.bounds.box import least_in_box
from holdfast.runtime.errors import BadValue
from holdfast.runtime.waiting import move_to


@dataclass(frozen=True)
class Linf(Ball):
    """All images with max |x' - x| <= radius, inside [0, 1].

    Attributes:
        radius: ε in pixels of a [0, 1] image, in (0, 1].

    Source: Madry et al. (2018).

    Example:
        >>> [round(v, 4) for v in Linf(0.1).project(torch.tensor([[[[0.3, -0.05]]]])).flatten().tolist()]
        [0.1, -0.05]
    """

    radius: float = 0.05
    symbol: ClassVar[str] = "ℓ∞"
    is_box: ClassVar[bool] = True
    landmarks: ClassVar[tuple[tuple[float, str], ...]] = ((1 / 255, "1/255"), (4 / 255, "4/255"), (8 / 255, "8/255"))

    def __post_init__(self) -> None:
        if not 0 < self.radius <= 1:
            meant = f"; did you mean {self.radius:g}/255?" if 1 < self.radius < 255 else ""
            raise BadValue(f"linf radius: expected pixels of a [0, 1] image, in (0, 1], got {self.radius}{meant}")

    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw uniformly from the cube around each image, clamped to [0, 1]."""
        # 2 ε u - ε may round beyond ε: projected too
        noise = move_to(rng.uniform(*x.shape[1:]), x) * (2 * self.radius) - self.radius
        return towards(x, self.project(noise))

    def project(self, delta: Images) -> Images:
        """Clamp every pixel to [-radius, radius], rounded inward."""
        reach = round_down(self.radius, delta.dtype)
        return delta.clamp(-reach, reach)

    def ascend(self, gradient: Images) -> Images:
        """Return sign(gradient)."""
        return gradient.sign()

    def squash(self, u: Float[Tensor, "*batch channel height width"]) -> Float[Tensor, "*batch channel height width"]:
        """Return radius · tanh(u), as radius · (2 sigmoid(2u) - 1): on a CPU torch's tanh takes ten times as long."""
        reach = round_down(self.radius, u.dtype)
        return (2 * u).sigmoid() * (2 * reach) - reach

    def size(self, delta: Images) -> PerImage:
        """Return max |delta| of each image."""
        return delta.flatten(1).abs().amax(1)

    def least(
        self,
        slopes: Float[Tensor, "*#batch rows pixels"],
        x: Float[Tensor, "*batch pixels"],
        box: tuple[Float[Tensor, "*batch pixels"], Float[Tensor, "*batch pixels"]],
        radii: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch rows"]:
        """Return slopes · centre - |slopes| · half-width of the box, which is the ball: exact."""
        return least_in_box(slopes, *box)
