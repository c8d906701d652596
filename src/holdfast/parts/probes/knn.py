"""kNN probe: the weighted vote of the nearest training images; nothing is learned."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Bank, Classifier, Probe, Reps
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.parts.probes.shared.training import classes_of
from holdfast.parts.probes.shared.vote import INDICES, Vote
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import unknown


@dataclass(frozen=True)
class Knn(Probe):
    """score_c(x) = Σ_{i in N_k(x), y_i = c} exp((s_i - 1) / T), s_i = cos(f(x), f(x_i)), N_k the k most similar.

    Exact: every training image is compared. The bank may be too large for memory, then its chunks are read once for
    each call. A bank of fewer than k images votes as a whole.

    Attributes:
        k: how many neighbours vote.
        temperature: T; how much more the nearest ones count. k 200, T .1: MoCo's; k 20, T .07: solo-learn's.
        index: "exact", ours; or "faiss", its exact search, which gives the same neighbours and needs the extra faiss.

    Source: Wu et al. (2018), section 3.4.

    Example:
        >>> reps, labels = torch.tensor([[1.0, 0.0], [1.1, 0.1], [0.0, 1.0], [0.1, 1.2]]), torch.tensor([0, 0, 1, 1])
        >>> Knn(k=2).fit(reps, labels).scores(reps).argmax(1).tolist()
        [0, 0, 1, 1]
    """

    invariant = DIRECTIONS

    k: Count = 200
    temperature: Positive = 0.1
    index: str = "exact"

    def __post_init__(self) -> None:
        if self.index not in INDICES:
            raise unknown("index of knn", self.index, INDICES)

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Classifier:
        """Return the vote of some representations."""
        return self.learn(Bank(labels, lambda: iter([reps])))

    def learn(self, bank: Bank) -> Classifier:
        """Return the vote of a bank; its representations are looked at when it is asked.

        Raises:
            HoldfastError: one class only.
        """
        classes, targets = classes_of(bank.labels)
        return Vote(classes, targets, bank.chunks, min(self.k, len(targets)), self.temperature, self.index)
