"""Collided: a copy detector takes f(x') for a copy of another image."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Event, Positions, Shard
from holdfast.parts.failures.shared.alike import LEAST
from holdfast.parts.failures.shared.beyond import distance_beyond
from holdfast.parts.failures.shared.thresholds import AtThreshold


@dataclass(frozen=True)
class Collided(AtThreshold):
    """d(f(x'), f(y)) < t, with y the partner of x, another image, and t as in `Unmatched`.

    The value is (t - d) / (d(f(x), f(y)) - t): -1 without a disturbance where x and y do not match. Partners are those
    of the measure `matching`, a random matching of the population; an image without one cannot fail.

    Source: collisions of perceptual hashes, Struppek et al. (2022).

    Example:
        >>> from holdfast.core import Encoder, Rng
        >>> clean, identity = torch.eye(2), Encoder(torch.nn.Flatten(), mean=0, std=1)
        >>> shard = Shard(identity, clean.view(2, 1, 1, 2), torch.arange(2), Rng(0, ids=("a", "b")), clean,
        ...     read=lambda observation: {"threshold": torch.tensor([0.5])})
        >>> event = Collided().bind(shard)
        >>> (event(torch.tensor([[[0.9, 0.1], [0.1, 0.8]]]), torch.tensor([0])) > 0).tolist()
        [[False, True]]
    """

    @property
    @override
    def title(self) -> str:
        return f"matches its partner at {self.at}"

    @property
    @override
    def clause(self) -> str:
        return "match another image, given for each,"

    def bind(self, shard: Shard) -> Event:
        """Return the event at the threshold of this population.

        Raises:
            HoldfastError: a population of one image, or too small a one for a threshold.
        """
        bank, own, partner = self.measure_population(shard)
        beyond = distance_beyond(self.divergence, bank[partner], self.read_threshold(shard))
        # In units of how far x itself is from matching; of images that match as they are, of the threshold
        at = beyond(bank[own, None], torch.arange(len(own))).squeeze(1)
        unit, alone = torch.where(at > 0, at, 1.0), partner == own

        def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
            rows = rows.to(own.device)
            return (-beyond(reps, rows) / unit[rows, None]).masked_fill(alone[rows, None], LEAST)

        return event

    @override
    def fails_at(self, shard: Shard) -> Positions:
        return self.measure_population(shard)[2].cpu()

    @override
    def identify(self, shard: Shard, reps: Float[Tensor, "batch dim"]) -> Int[Tensor, "batch"]:
        _, own, partner = self.measure_population(shard)
        return partner.masked_fill(partner == own, -1).cpu()
