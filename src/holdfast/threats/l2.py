"""The ℓ2 ball: the whole image may move by a Euclidean distance of up to ε."""

from dataclasses import dataclass

from holdfast.core import Ball, HoldfastError, Images, PerImage, Rng


@dataclass(frozen=True)
class L2(Ball):
    """All images with ||x' - x||_2 <= radius, inside [0, 1].

    Attributes:
        radius: ε, the Euclidean norm in pixels of a [0, 1] image, positive.

    Source: Madry et al. (2018).
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.radius < float("inf"):
            raise HoldfastError(f"l2 radius: expected a positive length in pixels of a [0, 1] image, got {self.radius}")

    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw uniformly from the ball around each image (radius · u^(1/d) in a random direction), clamped."""
        direction = self.ascend(rng.child("direction").normal(*x.shape[1:]).to(x))
        length = rng.child("length").uniform(1, 1, 1).to(x) ** (1 / x[0].numel())
        return (x + self.radius * length * direction).clamp_(0, 1)

    def project(self, delta: Images) -> Images:
        """Shorten every perturbation that is longer than the radius."""
        norm = self.size(delta).clamp_min(1e-30).view(-1, 1, 1, 1)
        return delta * (self.radius / norm).clamp_max(1)

    def ascend(self, gradient: Images) -> Images:
        """Return gradient / ||gradient||_2 (zero where the gradient is zero)."""
        return gradient / self.size(gradient).clamp_min(1e-30).view(-1, 1, 1, 1)

    def size(self, delta: Images) -> PerImage:
        """Return ||delta||_2 of each image."""
        return delta.flatten(1).norm(dim=1)
