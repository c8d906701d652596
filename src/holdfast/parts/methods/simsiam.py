"""SimSiam: a view predicts the projection of the other view, which is held fixed; no negatives and no twin."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Reps, Student
from holdfast.parts.methods.shared.targets import pairs
from holdfast.runtime.checked import Count
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class Simsiam(Method):
    """Mean over ordered pairs of views of -cos( h(z_i), z_j ), z = g(f(x)); no gradient passes through z_j.

    Attributes:
        hidden: width of the projector's hidden layers.
        dim: width of the projection.
        bottleneck: width of the predictor's hidden layer.

    Source: Chen & He (2021).

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = Simsiam(hidden=8, dim=4, bottleneck=2).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    hidden: Count = 2048
    dim: Count = 2048
    bottleneck: Count = 512

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with projector and predictor."""
        return _Student(encoder, facts, self)


class _Student(Student):
    def __init__(self, encoder: Encoder, facts: Facts, method: Simsiam):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "simsiam")
        losses = optional("lightly.loss", "lightly", "train", "simsiam")
        projector = heads.SimSiamProjectionHead(facts.dim, method.hidden, method.dim)
        super().__init__(encoder, projector, heads.SimSiamPredictionHead(method.dim, method.bottleneck, method.dim))
        self._criterion = losses.NegativeCosineSimilarity()

    def heads(self, rep: Reps | None, twin: Reps | None) -> tuple[Tensor | None, Tensor | None]:
        if rep is None:
            return None, None
        z = self.projector(rep)
        # The stop-gradient, without which all representations become one point
        return self.predictor(z), z.detach()

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        return torch.stack([self._criterion(out, target) for out, target in pairs(views)]).mean()
