"""VICReg: the views of an image agree, while every feature varies over the batch and no two features covary."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class Vicreg(Method):
    """λ · mean (a - b)² + μ · mean_j [1 - √(Var_j + 1e-4)]₊ + ν / D · Σ_{i≠j} Cov_ij² of the projections a, b of views.

    The variance term is the mean of both views', the covariance term the sum, both unbiased over the batch. Of more
    than two views, the mean over all pairs.

    Attributes:
        invariance: λ >= 0.
        variance: μ >= 0.
        covariance: ν >= 0.
        hidden: width of the projector's hidden layers; 8192 in the paper, for large networks.
        dim: width of the projection (D); 8192 in the paper.

    Source: Bardes et al. (2022).

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = Vicreg(hidden=8, dim=4).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    invariance: float = 25.0
    variance: float = 25.0
    covariance: float = 1.0
    hidden: Count = 2048
    dim: Count = 2048

    def __post_init__(self) -> None:
        if not any((self.invariance, self.variance, self.covariance)):
            raise BadValue("vicreg: expected invariance, variance or covariance above 0, got 0 for all")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its projector."""
        return _Student(encoder, facts, self)


class _Student(Student):
    def __init__(self, encoder: Encoder, facts: Facts, method: Vicreg):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "vicreg")
        losses = optional("lightly.loss", "lightly", "train", "vicreg")
        super().__init__(encoder, heads.VICRegProjectionHead(facts.dim, method.hidden, method.dim))
        # λ, μ and ν, in lightly's order
        self._criterion = losses.VICRegLoss(method.invariance, method.variance, method.covariance)

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        return torch.stack([self._criterion(a.out, b.out) for a, b in combinations(views, 2)]).mean()
