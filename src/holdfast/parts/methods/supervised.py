"""Supervised: a linear classifier on the representation, by cross-entropy; with or without a push to uniformity."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core import Batch, EncodedView, Encoder, Facts, Images, Margin, Method, Reps, Rng, Rows, Student
from holdfast.runtime.checked import Signed
from holdfast.runtime.errors import Conflict, NotEnough


@dataclass(frozen=True)
class Supervised(Method):
    """Mean over images of -log softmax(W a(f(x)) + b)_y, minus λ · U(f).

    U(f) = -log mean_{i≠j} exp(-2 ‖z_i - z_j‖²) over the batch, z = f / ‖f‖: larger is more uniform. Only the first view
    is read.

    Attributes:
        uniformity: λ; 0 for plain cross-entropy, 0.01 in the paper's table A.2, below 0 to hold features together.
        relu: whether a ReLU stands between the representation and the classifier (a), where the network ends before it.

    Source: Zhong et al. (2022), sections 3 and A.2.

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = Supervised().student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    uniformity: Signed = 0.0
    relu: bool = False
    needs_labels = True

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its classifier.

        Raises:
            HoldfastError: images of fewer than two classes.
        """
        if facts.classes is None or facts.classes < 2:
            raise NotEnough(f"supervised: expected images of at least 2 classes, got {facts.classes or 'no'} labels")
        return _Student(encoder, facts.dim, facts.classes, self)


class _Student(Student):
    views = 1

    def __init__(self, encoder: Encoder, dim: int, classes: int, method: Supervised):
        # For networks whose last ReLU is not part of the representation
        layers = [nn.ReLU()] if method.relu else []
        super().__init__(encoder, nn.Sequential(*layers, nn.Linear(dim, classes)))
        self._uniformity = method.uniformity

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        first = views[0]
        assert first.rep is not None
        assert first.out is not None
        assert batch.labels is not None
        loss = F.cross_entropy(first.out, batch.labels)
        return loss - self._uniformity * uniformity(first.rep) if self._uniformity else loss

    def bound(
        self, x: Images, lower: Callable[[Margin], Rows], batch: Batch, rng: Rng, most: int | None = None
    ) -> Float[Tensor, ""]:
        linear, assigned = next(iter(self.projector.children()), None), batch.labels
        if self._uniformity or not isinstance(linear, nn.Linear) or assigned is None:
            raise Conflict("supervised: expected uniformity=0 and relu=false to bound its loss over a ball")
        # How far the own class is ahead of each, at least: the cross-entropy falls as they rise (Zhang et al., Eq. 4)
        ahead = Margin(linear.weight[assigned][:, None] - linear.weight, linear.bias[assigned][:, None] - linear.bias)
        return F.cross_entropy(-lower(ahead), assigned)


def uniformity(reps: Reps) -> Float[Tensor, ""]:
    """Return -log mean_{i≠j} exp(-2 ‖z_i - z_j‖²) of unit vectors z."""
    z = F.normalize(reps, dim=1)
    # ||z_i - z_j||² of unit vectors
    squared = 2 - 2 * (z @ z.T)
    different = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    # log n (n - 1) - logsumexp is -log of the mean over ordered pairs, and does not underflow
    return math.log(len(z) * (len(z) - 1)) - torch.logsumexp(-2 * squared[different], 0)
