"""How much the accuracy of each class wanders from checkpoint to checkpoint while an encoder learns."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.statistics.jackknife import Contributions
from holdfast.runtime.errors import NotEnough

Correct = Float[Tensor, "checkpoints images"]
Labels = Int[Tensor, "images"]


def semantic_fluctuation(correct: Correct, labels: Labels) -> Contributions:
    """Contribution of each image to the total variation of its class's accuracy over checkpoints.

    TV_c = 1/(T-1) Σ_t |Acc_c(t+1) - Acc_c(t)|, a share per checkpoint. An image's contribution is the mean of
    (correct(t+1) - correct(t)) with the sign of its class's change: their mean within a class is TV_c itself, and
    `contributions.over_classes` averages the classes. This is the plain value: where few images flip at random, each
    change has a size although nothing changed. `flipping` says how much of it that accounts for; the interval does not.

    Args:
        correct: 1 where a probe is right about an image at a checkpoint, else 0, [T, N]; checkpoints in their order.
        labels: the class of each image, [N].

    Raises:
        HoldfastError: fewer than two checkpoints.

    Source: Zhong et al. (2022), "feature semantic fluctuation".

    Example:
        >>> correct = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
        >>> semantic_fluctuation(correct, torch.tensor([0, 0])).mean().item()
        0.25
    """
    steps, number, sizes = _steps(correct, labels)
    # [T-1, C]: by how many images each class gains or loses at each step
    change = torch.zeros(len(steps), len(sizes), dtype=torch.float64).index_add_(1, number, steps)
    return (change.sign()[:, number] * steps).mean(0)


def flipping(correct: Correct, labels: Labels) -> Float[Tensor, "classes"]:
    """Return the total variation that each class would show if no accuracy changed, from images that flip by chance.

    √(2/π) times the root of what flips between two checkpoints, Σ (correct(t+1) - correct(t))² / n_c², averaged over
    checkpoints: the mean size of a normal number of that spread. Classes in increasing order.

    Args:
        correct: as in `semantic_fluctuation`, [T, N].
        labels: the class of each image, [N].

    Raises:
        HoldfastError: fewer than two checkpoints.

    Example:
        >>> correct = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # both flip, and the accuracy stays
        >>> round(flipping(correct, torch.tensor([0, 0])).item(), 3)
        0.564
    """
    steps, number, sizes = _steps(correct, labels)
    # [T-1, C]: the variance of the class's change, if each flip were as likely up as down
    flips = torch.zeros(len(steps), len(sizes), dtype=torch.float64).index_add_(1, number, steps.square())
    return math.sqrt(2 / math.pi) * (flips.sqrt() / sizes).mean(0)


def _steps(correct: Correct, labels: Labels) -> tuple[Tensor, Tensor, Tensor]:
    """Return the change of every image at every step, [T-1, N], the number of its class, and the sizes of classes."""
    if len(correct) < 2:
        raise NotEnough(f"semantic fluctuation: expected at least 2 checkpoints, got {len(correct)}")
    _, number = labels.unique(return_inverse=True)
    return correct.double().diff(dim=0), number, number.bincount().double()
