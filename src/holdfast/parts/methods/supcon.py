"""SupCon: all views of all images of a class attract each other, those of other classes repel."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import NotEnough
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class Supcon(Method):
    """L_out: mean over all views i of mean_{p∈P(i)} -log( e^{z_i·z_p/T} / Σ_{a≠i} e^{z_i·z_a/T} ), z of unit length.

    P(i) are the other views of images of i's class, its own image among them, so an image that is alone with its class
    still has what attracts it; there the term is that of SimCLR.

    Attributes:
        temperature: T > 0.
        hidden: width of the projector's hidden layer.
        dim: width of the projection.

    Source: Khosla et al. (2020), Eq. 2; without their code's factor T / 0.07.

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = Supcon(hidden=8, dim=4).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    temperature: Positive = 0.1
    hidden: Count = 2048
    dim: Count = 128
    needs_labels = True

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its projector.

        Raises:
            HoldfastError: images of fewer than two classes.
        """
        if facts.classes is None or facts.classes < 2:
            raise NotEnough(f"supcon: expected images of at least 2 classes, got {facts.classes or 'no'} labels")
        return _Student(encoder, facts, self)


class _Student(Student):
    def __init__(self, encoder: Encoder, facts: Facts, method: Supcon):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "supcon")
        super().__init__(encoder, heads.SimCLRProjectionHead(facts.dim, method.hidden, method.dim, batch_norm=False))
        self._temperature = method.temperature

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        assert batch.labels is not None
        z = F.normalize(torch.cat([view.out for view in views if view.out is not None]), dim=1)
        # Views stand one after the other, each with all images in the same order
        labels = batch.labels.repeat(len(views))
        itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
        alike = (labels[:, None] == labels) & ~itself
        # [views · B, views · B]; a runs through all but i itself
        log_p = (z @ z.T / self._temperature).masked_fill(itself, -torch.inf).log_softmax(1)
        # Masked, not multiplied by 0: the diagonal is -inf. Nobody is alone: other views are alike.
        return -(log_p.masked_fill(~alike, 0).sum(1) / alike.sum(1)).mean()
