"""2-Wasserstein distance of the Gaussians that a VAE encoder outputs."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.blocks import Side, square_distances
from holdfast.numerics.geometry.divergence import Divergence, PerPair, Vectors
from holdfast.runtime.errors import Unsupported


@dataclass(frozen=True)
class Wasserstein(Divergence):
    """The 2-Wasserstein distance of the diagonal Gaussians that a VAE encoder outputs.

    A representation is (μ, log σ²), each of D/2 values; W₂² = ||μ_a - μ_b||² + ||σ_a - σ_b||²
    (Cemgil et al. 2020; appendix A.1 of "Robustness of unsupervised representation learning without labels").

    Example:
        >>> Wasserstein()(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 0.0])).item()  # μ 3 and 0, σ 1
        3.0
    """

    title = "Wasserstein distance"

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the distance of each pair."""
        return torch.linalg.vector_norm(self.embed(a) - self.embed(b), dim=-1)

    def embed(self, reps: Vectors) -> Vectors:
        """Return (μ, σ).

        Raises:
            HoldfastError: an odd number of features.
        """
        if reps.shape[-1] % 2:
            raise Unsupported(
                f"wasserstein: expected an even number of features (μ, then log σ²), got {reps.shape[-1]}; "
                "use it with an encoder that outputs both"
            )
        mean, log_variance = reps.chunk(2, -1)
        return torch.cat([mean, (log_variance / 2).exp()], -1)

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return the distances of all pairs."""
        return square_distances(rows, columns).sqrt_()
