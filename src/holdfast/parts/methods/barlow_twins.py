"""Barlow Twins: the projections of two views correlate with themselves, and no two of their features do."""

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
class BarlowTwins(Method):
    """Σ_i (1 - C_ii)² + λ Σ_{i≠j} C_ij², C_ij correlating feature i of one view with feature j of the other.

    Correlations are over the batch. Of more than two views, the mean over all pairs.

    Attributes:
        redundancy: λ >= 0.
        hidden: width of the projector's hidden layers; 8192 in the paper, for large networks.
        dim: width of the projection; 8192 in the paper.

    Source: Zbontar et al. (2021).

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = BarlowTwins(hidden=8, dim=4).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    redundancy: float = 5e-3
    hidden: Count = 2048
    dim: int = 2048

    def __post_init__(self) -> None:
        if self.dim < 2:
            raise BadValue(f"barlow_twins: expected a dim of at least 2 features, got {self.dim}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its projector."""
        return _Student(encoder, facts, self)


class _Student(Student):
    def __init__(self, encoder: Encoder, facts: Facts, method: BarlowTwins):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "barlow_twins")
        losses = optional("lightly.loss", "lightly", "train", "barlow_twins")
        super().__init__(encoder, heads.BarlowTwinsProjectionHead(facts.dim, method.hidden, method.dim))
        self._criterion = losses.BarlowTwinsLoss(lambda_param=method.redundancy)

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        # lightly's loss is symmetric but for its rounding, so unordered pairs are enough
        return torch.stack([self._criterion(a.out, b.out) for a, b in combinations(views, 2)]).mean()
