"""BYOL: a view predicts what a slowly following twin makes of the other view; there are no negatives."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.parts.methods.shared.targets import momentum_at, pairs
from holdfast.runtime.errors import BadValue
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class Byol(Method):
    """Mean over ordered pairs of views of 2 - 2 cos( q(g(f(x_i))), g'(f'(x_j)) ); f', g' follow f, g.

    After every step θ' <- m θ' + (1 - m) θ, with 1 - m = (1 - m_0) (1 + cos(π · progress)) / 2.

    Attributes:
        hidden: width of the hidden layers of projector and predictor.
        dim: width of the projection.
        momentum: m_0, at the beginning.

    Source: Grill et al. (2020).

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = Byol(hidden=8, dim=4).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    hidden: int = 4096
    dim: int = 256
    momentum: float = 0.99

    def __post_init__(self) -> None:
        if not 0 <= self.momentum <= 1 or min(self.hidden, self.dim) < 1:
            raise BadValue(f"byol: expected a momentum in [0, 1] and positive widths, got {self}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with projector and predictor, and their twin."""
        return _Student(encoder, facts, self)


class _Student(Student):
    def __init__(self, encoder: Encoder, facts: Facts, method: Byol):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "byol")
        losses = optional("lightly.loss", "lightly", "train", "byol")
        projector = heads.BYOLProjectionHead(facts.dim, method.hidden, method.dim)
        predictor = heads.BYOLPredictionHead(method.dim, method.hidden, method.dim)
        super().__init__(encoder, projector, predictor, twin=True)
        self._criterion, self._method = losses.NegativeCosineSimilarity(), method

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        # lightly's criterion is the mean of -cos, and 2 - 2 cos is ||u - v||² of unit vectors (BYOL, Eq. 2)
        return torch.stack([2 + 2 * self._criterion(out, target) for out, target in pairs(views)]).mean()

    def after_step(self, progress: float) -> None:
        self.follow(momentum_at(self._method.momentum, progress))
