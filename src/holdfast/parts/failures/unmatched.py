"""Unmatched: a copy detector no longer takes f(x') for a copy of x."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Event, Positions, Shard
from holdfast.numerics.geometry import pairwise
from holdfast.parts.failures.shared.beyond import distance_beyond
from holdfast.parts.failures.shared.thresholds import AtThreshold

REACHED = 1e-3
"""Added to the value at the threshold and beyond: what lies exactly there fails clearly, as whole numbers often do."""


@dataclass(frozen=True)
class Unmatched(AtThreshold):
    """d(f(x'), f(x)) >= t, the smallest distance that more than `rate` of the pairs of different clean images reach.

    The value is d / t - 1, and 0.001 more where it fails: -1 without a disturbance. t is a plug-in, the same for every
    image: that of the measure `matching`, which says how it is estimated.

    Source: evasion of copy detection, Jain et al. (2022).

    Example:
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.eye(2), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(2, 1, 1, 2), torch.arange(2), Rng(0, ids=("a", "b")), clean,
        ...     read=lambda observation: {"threshold": torch.tensor([0.5])})
        >>> event = Unmatched().bind(shard)
        >>> (event(torch.tensor([[[0.9, 0.1], [0.5, 0.0]]]), torch.tensor([0])) > 0).tolist()
        [[False, True]]
    """

    @property
    @override
    def title(self) -> str:
        return f"no longer matches at {self.at}"

    @property
    @override
    def clause(self) -> str:
        return "no longer match themselves"

    def bind(self, shard: Shard) -> Event:
        """Return the event at the threshold of this population.

        Raises:
            HoldfastError: a population of one image, or too small a one for a threshold.
        """
        bank, own, _ = self.measure_population(shard)
        beyond = distance_beyond(self.divergence, bank[own], self.read_threshold(shard))

        def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            value = beyond(reps, rows)
            return value + REACHED * (value >= 0)

        return event

    @override
    def fails_at(self, shard: Shard) -> Positions:
        # The nearest of those that do not match: itself, which fails nowhere, where all others do
        bank, own, _ = self.measure_population(shard)
        apart = pairwise.pairwise(bank[own].cpu(), bank.cpu(), self.divergence)
        matches = apart < self.read_threshold(shard)
        nearest = apart.masked_fill(matches, torch.inf).argmin(1)
        return torch.where(matches.all(1), own.cpu(), nearest)
