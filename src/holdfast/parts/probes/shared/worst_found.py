"""The linear head that is best against the worst representation of each image, of those that an attack found so far."""

import math
from collections.abc import Sequence

import numpy as np
import scipy
import torch
from jaxtyping import Float
from torch import Tensor

Parameters = Float[Tensor, "classes features"]
"""W and, for a last feature that is 1, b; the penalty leaves b out."""

Versions = Sequence[Float[Tensor, "images features"]]
"""Representations of the same images, one tensor for each version of them."""

SHARPNESS = 0.01
"""τ: a maximum of K losses is taken as τ ln(mean exp(loss/τ)), at most τ ln K nats below it, and smooth. With .1 what
an attack of little effect found is averaged with the clean image, and heads come out 6 % too long."""

STEPS, PRECISION = 1000, 1e-5
"""Of L-BFGS: most iterations, and the largest slope that it ends with, in nats."""


def losses(version: Tensor, target: Float[Tensor, "images classes"], head: Parameters) -> Float[Tensor, "images"]:
    """Return -log softmax(W z + b)_y of each image, in nats."""
    return -((version @ head.T).log_softmax(1) * target).sum(1)


def price(head: Parameters, decay: float) -> float:
    """Return decay/2 ||W||²."""
    return decay / 2 * float(head[:, :-1].square().sum())


def best_against(
    versions: Versions, target: Float[Tensor, "images classes"], start: Parameters, decay: float
) -> tuple[Parameters, float]:
    """Return argmin 1/N Σ_i max_k -log softmax(W z_ik + b)_{y_i} + decay/2 ||W||², and the minimum, in nats.

    The maximum is the smooth one of `SHARPNESS`, so the problem is convex and smooth, and its minimum is at most that
    of the worst of all images, known or not, up to the precision of L-BFGS.

    Args:
        versions: z_ik with a last feature of 1, K tensors [N, D + 1] in float64.
        target: classes, one-hot, [N, C] in float64.
        start: where the search starts, [C, D + 1] in float64.
        decay: weight of ||W||²/2.
    """

    def fall(flat: np.ndarray) -> tuple[float, np.ndarray]:
        head = torch.from_numpy(flat).view_as(start)
        logits = [version @ head.T for version in versions]
        # the smooth maximum over versions of each image's loss
        each = torch.stack([-(trial.log_softmax(1) * target).sum(1) for trial in logits]) / SHARPNESS
        value = SHARPNESS * float((each.logsumexp(0) - math.log(len(versions))).mean()) + price(head, decay)
        slope = decay * head
        # The last column is b, which has no penalty
        slope[:, -1] = 0
        # its gradient: that of each version, weighted by the softmax
        for version, trial, weight in zip(versions, logits, each.softmax(0) / len(target), strict=True):
            # [C, N] @ [N, D + 1]
            slope += ((trial.softmax(1) - target) * weight[:, None]).T @ version
        return value, slope.flatten().numpy()

    solution = scipy.optimize.minimize(
        fall, start.flatten().numpy(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "gtol": PRECISION}
    )
    return torch.from_numpy(solution.x).view_as(start), float(solution.fun)
