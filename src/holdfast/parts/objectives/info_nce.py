"""InfoNCE: each image must be told from the others of the batch."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.runtime.checked import Positive


@dataclass(frozen=True)
class InfoNce(Objective):
    """Maximise -log( e^{s(x'_i, v_i)/T} / Σ_j e^{s(x'_i, v_j)/T} ), s the cosine similarity, jointly over the batch.

    `clean` holds the keys v: the other view of each image, which is also a negative of all others. With `target`
    (any number of rows) these are further negatives, like MoCo's queue. Ho & Vasconcelos tell each key v_i from the
    other attacked images instead, Σ_j e^{s(x'_j, v_i)/T}: `against="queries"` (appendix A.2 writes inner products,
    which are cosines where representations are normalised).

    Attributes:
        temperature: T > 0.
        against: what the denominator sums over: the "keys" of all images, or the "queries", the attacked images.

    Source: van den Oord et al. (2018); He et al. (2020); Petrov & Kwiatkowska (2022), appendix C.1; against queries: Ho
    & Vasconcelos (2020), as in appendix A.2.

    Example:
        >>> reps = torch.eye(2)
        >>> [round(loss, 4) for loss in InfoNce(temperature=0.5)(reps, reps).tolist()]
        [0.1269, 0.1269]
    """

    invariant = DIRECTIONS

    temperature: Positive = 0.2
    against: Literal["keys", "queries"] = "keys"
    batchwise = True

    @override
    def __call__(self, reps: Reps, clean: Reps, target: Tensor | None = None) -> PerImage:
        one, others = (reps, clean) if self.against == "keys" else (clean, reps)
        others = others if target is None else torch.cat([others, target])
        # [B, B + further]: row i has its own partner in column i, and all others for negatives
        logits = unit(one) @ unit(others).T / self.temperature
        own = torch.arange(len(reps), device=reps.device)
        return torch.nn.functional.cross_entropy(logits, own, reduction="none")
