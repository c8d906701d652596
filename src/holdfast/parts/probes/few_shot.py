"""Few-shot probe: any probe that learns, on a few training images of each class."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Bank, Classifier, Probe, Reps
from holdfast.core.registry import part_name
from holdfast.numerics.rng import Rng
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.shared.shots import draw_shots
from holdfast.parts.probes.shared.stream import select
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class FewShot(Probe):
    """What `probe` learns from `shots` training images of each class, drawn by the seed.

    With one seed, more shots are drawn in addition to those of fewer.

    Attributes:
        probe: how the classifier comes about.
        shots: images of each class.
        seed: which ones.

    Example:
        >>> reps, labels = torch.tensor([[1.0, 0.0], [1.1, 0.1], [0.0, 1.0], [0.1, 1.2]]), torch.tensor([0, 0, 1, 1])
        >>> FewShot(shots=1).fit(reps, labels).scores(reps).argmax(1).tolist()
        [0, 0, 1, 1]
    """

    probe: Probe = Linear()
    shots: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.shots < 1:
            raise BadValue(f"few_shot: expected at least 1 shot, got {self.shots}")
        if not self.probe.trains or self.probe.through:
            raise BadValue(f"few_shot: expected a probe that learns from representations, got {part_name(self.probe)}")

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Classifier:
        """Return the classifier of some of these representations."""
        return self.learn(Bank(labels, lambda: iter([reps])))

    def learn(self, bank: Bank) -> Classifier:
        """Return the classifier of a part of the bank, whose chunks are read once.

        Raises:
            HoldfastError: a class with fewer images than shots, and what the probe raises.
        """
        places = draw_shots(bank.labels, self.shots, Rng(self.seed))
        # A few images fit in memory, so the inner probe needs no bank
        return self.probe.fit(select(bank, places), bank.labels[places])
