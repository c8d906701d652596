"""The contrastive loss of one image against one negative."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.runtime.checked import Positive


@dataclass(frozen=True)
class InstanceContrastive(Objective):
    """Maximise -log( e^{s(x',x)/T} / (e^{s(x',x)/T} + e^{s(x',t)/T}) ), s the cosine similarity.

    `clean` holds the positive κ(x), the image itself or another view of it; `target` the negative σ(x).

    Attributes:
        temperature: T > 0.

    Source: Kim et al. (2020); Petrov & Kwiatkowska (2022), appendix A.1.

    Example:
        >>> reps, target = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> round(InstanceContrastive(temperature=0.5)(reps, reps, target).item(), 4)
        0.1269
    """

    invariant = DIRECTIONS

    temperature: Positive = 0.5
    needs_target = True

    @override
    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        assert target is not None  # `pursue` has checked
        positive = (unit(reps) * unit(clean)).sum(1) / self.temperature
        negative: Float[Tensor, "batch"] = (unit(reps) * unit(target)).sum(1) / self.temperature
        # -log(e^p / (e^p + e^n)) = log(1 + e^(n - p)), without exponentials that overflow
        return torch.nn.functional.softplus(negative - positive)
