"""The contrastive logistic loss of one image against K negatives, of inner products as they are."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Objective, PerImage, Reps
from holdfast.runtime.errors import Mismatch


@dataclass(frozen=True)
class LogisticContrastive(Objective):
    """Maximise log₂(1 + Σ_j exp(-f(x')ᵀ (f(x⁺) - f(x_j⁻)))), the loss L_un behind RVCL's theorems.

    `clean` holds the positive x⁺, the image itself or another view of it; `target` the negatives: one for each image
    [B, D], K of them [B, K, D], or K of each of p latent classes [B, p, K, D]. Representations are not normalised,
    there is no temperature, and values are bits. With more than one negative the loss is at least that against each
    of them alone, and at most their sum.

    Source: Saunshi et al. (2019); Wang & Liu (2023), Eq. 1 and 43.

    Example:
        >>> reps, negatives = torch.eye(2)[:1], torch.eye(2)[[1, 1]]
        >>> [round(LogisticContrastive()(reps, reps, negatives[None, :k]).item(), 4) for k in (1, 2)]
        [0.4519, 0.7956]
    """

    invariant = frozenset({"rotation", "permutation"})

    needs_target = True

    @override
    def __call__(self, reps: Reps, clean: Reps, target: Tensor | None = None) -> PerImage:
        assert target is not None  # `pursue` has checked
        if target.shape[:1] != reps.shape[:1] or target.shape[-1:] != reps.shape[1:] or target.ndim not in (2, 3, 4):
            raise Mismatch(
                f"logistic_contrastive: expected negatives [{len(reps)}, {reps.shape[1]}], or several for each image "
                f"[{len(reps)}, K, {reps.shape[1]}], got {list(target.shape)}"
            )
        negatives = target.reshape(len(reps), -1, reps.shape[1])
        # -f(x')ᵀ (f(x⁺) - f(x_j⁻)), [B, K]
        behind = torch.einsum("bd,bkd->bk", reps, negatives - clean[:, None])
        # log(1 + Σ e^v) = log(e^0 + Σ e^v), without exponentials that overflow
        return torch.logsumexp(torch.nn.functional.pad(behind, (1, 0)), 1) / math.log(2)
