"""Linear probe as the RVCL authors train it: Adam on the cross-entropy."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from holdfast.core import Head, LinearProbe, Reps
from holdfast.numerics.geometry.invariance import NOTHING
from holdfast.parts.probes.shared.training import check_finite, classes_of
from holdfast.runtime.errors import BadValue
from holdfast.sources.encoders.shared.weights import fix_seed


@dataclass(frozen=True)
class LinearAdam(LinearProbe):
    """min 1/N Σ_i -log softmax(W f(x_i) + b)_{y_i} by Adam, the learning rate divided by 10 every so many epochs.

    Neither standardised nor run to the end, so the head depends on the scale of the representation and on the seed.

    Attributes:
        epochs: passes over the training images.
        rate: learning rate at the beginning.
        every: epochs between two drops of the learning rate.
        batch_size: images per step; the paper does not say, 256 is that of its encoders' training.
        seed: of the first weights and of the order of images.

    Source: Wang & Liu (2023), appendix E.4 (linear evaluation).

    Example:
        >>> reps, labels = torch.tensor([[1.0, 0.0], [1.1, 0.1], [0.0, 1.0], [0.1, 1.2]]), torch.tensor([0, 0, 1, 1])
        >>> LinearAdam(epochs=100, rate=0.1).fit(reps, labels).scores(reps).argmax(1).tolist()
        [0, 0, 1, 1]
    """

    invariant = NOTHING

    epochs: int = 100
    rate: float = 1e-3
    every: int = 50
    batch_size: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.epochs, self.every, self.batch_size) < 1 or not self.rate > 0:
            raise BadValue(f"linear_adam: expected positive epochs, rate, every and batch_size, got {self}")

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return the head in float32, [C, D].

        Raises:
            HoldfastError: representations that are not finite, or one class only.
        """
        check_finite(reps)
        classes, targets = classes_of(labels)
        reps = reps.detach().float()
        with fix_seed(self.seed), torch.enable_grad():
            # Made on the CPU, so that a seed gives the same first weights on every device
            layer = nn.Linear(reps.shape[1], len(classes)).to(reps.device)
            adam = torch.optim.Adam(layer.parameters(), self.rate)
            # Appendix E.4 of RVCL: 100 epochs from 0.001, divided by 10 every 50
            schedule = torch.optim.lr_scheduler.StepLR(adam, self.every, 0.1)
            for _ in range(self.epochs):
                # The order, too, is that of the seed
                for rows in torch.randperm(len(reps)).to(reps.device).split(self.batch_size):
                    adam.zero_grad()
                    F.cross_entropy(layer(reps[rows]), targets[rows]).backward()
                    adam.step()
                schedule.step()
        return Head(layer.weight.detach().cpu(), layer.bias.detach().cpu(), classes.cpu())
