"""NT-Xent: SimCLR's loss over a batch of pairs, joined by its two views."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.runtime.checked import Positive


@dataclass(frozen=True)
class NtXent(Objective):
    """Maximise the normalised-temperature cross-entropy of SimCLR, jointly over the batch.

    With z the 2B unit vectors of the disturbed images and of their other views, and p(i) the other view of i:
    ℓ_i = -log( e^{z_i·z_p(i)/T} / Σ_{k≠i} e^{z_i·z_k/T} ); image i is charged (ℓ_i + ℓ_{i+B}) / 2, so that the mean
    over the batch is NT-Xent.

    `clean` holds the other views. The loss couples the images: use it batch-wise (L̄-PGD).

    Attributes:
        temperature: T > 0.

    Source: Chen et al. (2020a); Petrov & Kwiatkowska (2022), appendix A.2.

    Example:
        >>> reps = torch.eye(2)
        >>> [round(loss, 4) for loss in NtXent(temperature=0.5)(reps, reps).tolist()]
        [0.2395, 0.2395]
    """

    invariant = DIRECTIONS

    temperature: Positive = 0.5
    batchwise = True

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the part of the loss that belongs to each image."""
        z: Tensor = unit(torch.cat([reps, clean]))
        # [2B, 2B]; -inf on the diagonal is k ≠ i
        similarity = (z @ z.T / self.temperature).fill_diagonal_(-torch.inf)
        batch = len(reps)
        # p(i) is B rows further on, and for the second half B rows back
        positive = torch.arange(2 * batch, device=z.device).roll(batch)
        loss = torch.nn.functional.cross_entropy(similarity, positive, reduction="none")
        return (loss[:batch] + loss[batch:]) / 2
