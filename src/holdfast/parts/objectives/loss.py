"""Any differentiable function of the representations as what the adversary maximises."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.invariance import NOTHING
from holdfast.runtime.errors import Failed


@dataclass(frozen=True)
class Loss(Objective):
    """Maximise a callable L(f(x'), f(x), f(t)): L-FGSM, L-PGD and L-BIM, or L̄ variants when it couples the batch.

    For attacks that are called directly. In audits a function of single images is an objective by `holdfast.loss`.

    A loss that needs more than representations (the images, another network) is a plain function from images to
    (values, representations), which attacks take as it is.

    Attributes:
        function: maps (reps [B, D], clean [B, D], target [B, D] or None) to one value per image [B].

    Source: Petrov & Kwiatkowska (2022), section 4.3.

    Example:
        >>> halves = Loss(lambda reps, clean, target: (reps - clean).square().sum(1) / 2)
        >>> halves(torch.tensor([[2.0]]), torch.tensor([[0.0]])).item()
        2.0
    """

    invariant = NOTHING

    function: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    batchwise = True

    def __call__(self, reps: Reps, clean: Reps, target: Tensor | None = None) -> PerImage:
        """Return the loss of every image.

        Raises:
            HoldfastError: a function that does not return one value per image.
        """
        values = self.function(reps, clean, target)
        if values.shape != reps.shape[:1]:
            raise Failed(
                f"loss: expected one value per image, {list(reps.shape[:1])}, got {list(values.shape)}; "
                "return the loss without reduction (a batch-wise loss: its value divided among the images)"
            )
        return values
