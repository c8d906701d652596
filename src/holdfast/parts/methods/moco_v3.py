"""MoCo v3: each view finds, among all images of the batch, what a slowly following twin makes of the other view."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.parts.methods.shared.targets import momentum_at, pairs
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import BadValue
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class MocoV3(Method):
    """ctr(q_0, k_1) + ctr(q_1, k_0), ctr(q, k) = 2T · mean_i -log( e^{q_i·k_i/T} / Σ_j e^{q_i·k_j/T} ), unit lengths.

    q = h(g(f(x))) goes through a predictor, k = g'(f'(x)) through the twin, which follows with a momentum that rises to
    1 as a cosine. The sum is over ordered pairs of views, as in listing 2: an attacked view gives
    ctr(q_adv, k_1) + ctr(q_1, k_adv). The twin moves after a step, which is before the next one there.

    Attributes:
        temperature: T > 0.
        momentum: at the beginning.
        hidden: width of the hidden layers of projector and predictor.
        dim: width of the projection.

    Source: Chen et al. (2021); Petrov & Kwiatkowska (2022), listing 2.

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = MocoV3(hidden=8, dim=4).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    temperature: Positive = 0.2
    momentum: float = 0.99
    hidden: Count = 4096
    dim: Count = 256

    def __post_init__(self) -> None:
        if self.momentum > 1:
            raise BadValue(f"moco_v3: expected a momentum in [0, 1], got {self.momentum:g}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with projector and predictor, and their twin."""
        return _Student(encoder, facts, self)


class _Student(Student):
    def __init__(self, encoder: Encoder, facts: Facts, method: MocoV3):
        # Three layers and two, with BatchNorm, are those of its authors
        make = optional("lightly.models.modules.heads", "lightly", "train", "moco_v3").MoCoProjectionHead
        projector = make(facts.dim, method.hidden, method.dim, num_layers=3, batch_norm=True)
        predictor = make(method.dim, method.hidden, method.dim, num_layers=2, batch_norm=True)
        super().__init__(encoder, projector, predictor, twin=True)
        self._method = method

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        return torch.stack([self._contrast(out, target) for out, target in pairs(views)]).sum()

    def _contrast(self, out: Tensor, target: Tensor) -> Float[Tensor, ""]:
        t = self._method.temperature
        logits = F.normalize(out, dim=1) @ F.normalize(target, dim=1).T / t
        # Row i is right in column i: the other images of the batch are the negatives. 2T, as in its
        # authors' code, keeps gradients about equally large at every T.
        return 2 * t * F.cross_entropy(logits, torch.arange(len(out), device=out.device))

    def after_step(self, progress: float) -> None:
        self.follow(momentum_at(self._method.momentum, progress))
