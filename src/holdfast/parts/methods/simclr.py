"""SimCLR: two views of an image attract each other, those of all other images of the batch repel."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Student
from holdfast.runtime.errors import BadValue
from holdfast.runtime.optional import optional


@dataclass(frozen=True)
class Simclr(Method):
    """NT-Xent: mean over the 2B projections z of -log( e^{z_i·z_p(i)/T} / Σ_{k≠i} e^{z_i·z_k/T} ), z of unit length.

    p(i) is the other view of the same image. Of more than two views, the mean over all pairs.

    The mutual loss of m views of B images, RoCL's, tells each of the mB projections from all others: 1/(mB) times the
    sum over ordered pairs of views (i, j), and over images, of -log( e^{z_i·z_j/T} / Σ_k e^{z_i·z_k/T} ), where k runs
    through all but z_i itself; without a gradient to z_j and z_k, as in its authors' code. For m = 2 it is NT-Xent.

    The joint loss of m views is the mean over their ordered pairs (i, j) of the same, where k runs through the first
    two views of all images but not through z_i itself (as it does in the source below); for m = 2 it is NT-Xent.

    Attributes:
        temperature: T > 0.
        hidden: width of the projector's hidden layer.
        dim: width of the projection.
        batchnorm: whether the projector normalises its layers over the batch; RVCL's does not.

    Source: Chen et al. (2020a); Wang & Liu (2023), E.3; Petrov & Kwiatkowska (2022), A.2, for the joint loss (AdvCL);
    Kim et al. (2020), for the mutual one (RoCL).

    Example:
        >>> from holdfast.sources.encoders.shared.copies import trainable
        >>> encoder = trainable(Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1))
        >>> student = Simclr(hidden=8, dim=4).student(encoder, Facts(dim=3, images=8, classes=2))
        >>> views = student.see([torch.rand(8, 1, 2, 2)] * student.views, range(student.views))
        >>> bool(student.loss(views, Batch(torch.arange(8), torch.arange(8) % 2)).isfinite())
        True
    """

    temperature: float = 0.5
    hidden: int = 300
    dim: int = 100
    batchnorm: bool = False

    def __post_init__(self) -> None:
        if not self.temperature > 0 or min(self.hidden, self.dim) < 1:
            raise BadValue(f"simclr: expected a temperature above 0 and positive widths, got {self}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its projector."""
        return _Student(encoder, facts, self)


class _Student(Student):
    def __init__(self, encoder: Encoder, facts: Facts, method: Simclr):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "simclr")
        losses = optional("lightly.loss", "lightly", "train", "simclr")
        make = heads.SimCLRProjectionHead
        super().__init__(encoder, make(facts.dim, method.hidden, method.dim, batch_norm=method.batchnorm))
        self._criterion, self._temperature = losses.NTXentLoss(temperature=method.temperature), method.temperature

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        outs = [view.out for view in views]
        losses = [self._criterion(a, b) for i, a in enumerate(outs) for b in outs[i + 1 :]]
        return torch.stack(losses).mean()

    def mutual(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        z = torch.stack([F.normalize(view.out, dim=1) for view in views if view.out is not None])
        count, images, _ = z.shape
        # similarities of all projections, each one's own left out
        likeness = z.flatten(0, 1) @ z.flatten(0, 1).detach().T / self._temperature
        likeness = likeness.masked_fill(torch.eye(len(likeness), dtype=torch.bool, device=z.device), -torch.inf)
        # -log softmax at the other views of the same image
        unlike = (likeness.logsumexp(1, keepdim=True) - likeness).view(count, images, count, images)
        unlike = unlike.diagonal(dim1=1, dim2=3)  # [view, other view, image]
        others = ~torch.eye(count, dtype=torch.bool, device=z.device)
        return unlike[others].sum() / (count * images)

    def joint(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        z = [F.normalize(view.out, dim=1) for view in views if view.out is not None]
        own = torch.cat(z[:2])  # what every view is told from: the first two views of all images
        images, losses = len(z[0]), []
        for i, anchor in enumerate(z):
            # similarities to the first two views of all images, its own left out
            likeness = anchor @ own.T / self._temperature
            if i < 2:
                likeness.diagonal(i * images).fill_(-torch.inf)  # but not from itself
            # -log softmax at every other view of the same image
            among = likeness.logsumexp(1)
            losses += [(among - (anchor * z[j]).sum(1) / self._temperature).mean() for j in range(len(z)) if j != i]
        return torch.stack(losses).mean()
