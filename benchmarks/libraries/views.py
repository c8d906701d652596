"""The loss of two views: NT-Xent of lightly, value and gradient."""

import torch
from torch import Tensor

from benchmarks.libraries.work import Work
from holdfast.parts.objectives.nt_xent import NtXent

BATCH, DIM = 512, 128

Found = tuple[Tensor, Tensor]
"""A loss and its gradient."""


def lightly() -> Work:
    """Return NT-Xent of two views and its gradient to the first."""
    from lightly.loss import NTXentLoss

    first, second = torch.randn(2, BATCH, DIM, generator=torch.Generator().manual_seed(0)).unbind()
    criterion, objective = NTXentLoss(0.5), NtXent(0.5)

    def ours() -> Found:
        view = first.clone().requires_grad_()
        loss = objective(view, second).mean()
        return loss.detach(), torch.autograd.grad(loss, view)[0]

    def theirs() -> Found:
        view = first.clone().requires_grad_()
        loss = criterion(view, second)
        return loss.detach(), torch.autograd.grad(loss, view)[0]

    def apart(mine: Found, other: Found) -> float:
        return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(mine, other, strict=True))

    what = f"NT-Xent and its gradient, {BATCH} pairs of {DIM} numbers"
    return Work("lightly", what, ours, theirs, apart, "largest relative difference", "", 1e-5)


WORKS = {"lightly, NT-Xent": lightly}
