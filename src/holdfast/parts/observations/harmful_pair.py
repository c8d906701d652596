"""Which two edits that are harmless alone break the most images one after the other: chosen on images of its own."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Corruption, Event, Failure, Observation, Passes, Scope, Shard
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.breaking_radii import CLEARLY
from holdfast.parts.observations.shared.noisy import represent
from holdfast.parts.threats.chain import Chain
from holdfast.parts.threats.edit import Edit
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class HarmfulPair(Observation):
    """The pair i < j of edits, the i-th and then the j-th, that breaks the most of the last images of an audit.

    1. Each edit alone, at strengths 1 / levels, 2 / levels, ..., 1. It is harmless up to the last of them before the
       first one at which it breaks more than a share `harmless` of these images.
    2. Each pair of edits that are harmless somewhere, both at the heaviest strength at which they are. Of pairs that
       break equally many images, the first one is chosen.

    `pair` [2], the numbers of its edits, -1 where fewer than two are harmless; `strength` [edits], the heaviest
    harmless strength of each, 0 where there is none; `alone` [edits, levels], the share of these images that each
    breaks alone; `together` [edits, edits], the share that each pair breaks; NaN where nothing was tried; `chosen_on`
    [1], how many images.

    Attributes:
        edits: the families, in the order in which two are applied.
        levels: strengths at which each is tried alone.
        harmless: the largest share of images that a harmless edit may break.
        failure: what counts as broken.
        most: how many images choose at most; others judge.
    """

    edits: tuple[Edit, ...] = (Edit(),)
    levels: Count = 4
    harmless: float = 0.1
    failure: Failure = Nearest()
    most: Count = 32

    scope = Scope.LAST

    def __post_init__(self) -> None:
        if self.harmless > 1:
            raise BadValue(f"harmful_pair: harmless: expected a share of images up to 1, got {self.harmless:g}")
        if not self.edits:
            raise BadValue("harmful_pair: edits: expected one edit or more, got none")

    @property
    @override
    def title(self) -> str:
        return f"pairs of {len(self.edits)} edits, each harmless alone: {self.failure.title}"

    def key(self) -> Observation:
        """Everything about it decides which pair is chosen."""
        return self

    def join(self, twin: Observation) -> Observation:
        """Equal keys are equal."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """The images that are not attacked, or half of the population where these are fewer; the last ones of them."""
        return min(self.most, max(population - attacked, population // 2))

    def count_held_out(self, population: int, attacked: int) -> int:
        """Return how many images, the first ones of those attacked, had no part in the choice."""
        return min(attacked, population - self.images(population, attacked))

    @property
    def passes(self) -> Passes:
        """One for each edit at each level, one for each pair."""
        count = len(self.edits)
        return Passes(forward=count * self.levels + count * (count - 1) // 2)

    @property
    def adaptive(self) -> bool:
        """An edit is not tried beyond the first level at which it does harm, nor in pairs where it always does."""
        return True

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Choose.

        Raises:
            HoldfastError: an edit that these images do not fit, or a representation that is not finite.
        """
        event, count = self.failure.bind(shard), len(self.edits)
        alone = torch.full((count, self.levels), torch.nan, dtype=torch.float64)
        together = torch.full((count, count), torch.nan, dtype=torch.float64)
        strength = torch.zeros(count, dtype=torch.float64)
        for number, edit in enumerate(self.edits):
            # Step 1: each edit alone, from the mildest level up to the first that does harm
            for level in range(self.levels):
                at = (level + 1) / self.levels
                alone[number, level] = share = find_failures(shard, event, (edit.at(at),)).mean()
                # A share such as 0.1 is not exact in binary: equal counts as harmless
                if share > self.harmless + 1e-12:
                    break
                strength[number] = at
        # Step 2: all pairs of edits that are harmless at some level,
        # each at its heaviest such level
        usable = strength.nonzero().flatten().tolist()
        for first, second in itertools.combinations(usable, 2):
            links = self.build_edits((first, second), strength)
            together[first, second] = find_failures(shard, event, links).mean()
        # Pairs that were not tried lose to any share; argmax takes the first of equals
        best = int(together.nan_to_num(-1.0).argmax())
        pair = divmod(best, count) if len(usable) > 1 else (-1, -1)
        return {
            "pair": torch.tensor(pair),
            "strength": strength,
            "alone": alone,
            "together": together,
            "chosen_on": torch.tensor([len(shard.x)]),
        }

    def build_edits(self, pair: tuple[int, ...], strength: Float[Tensor, "edits"]) -> tuple[Corruption, ...]:
        """Return the threats that some of the edits are at their heaviest harmless strengths."""
        return tuple(self.edits[number].at(float(strength[number])) for number in pair)


def find_failures(shard: Shard, event: Event, links: tuple[Corruption, ...]) -> Float[Tensor, "images"]:
    """Return 1 for the images of a shard that fail after some threats, one after the other, and 0 for the others."""
    resolution = "encoder" if any(link.resolution == "encoder" for link in links) else "image"
    x = shard.disturb(Chain(links, resolution=resolution), shard.rng.child("pair"))
    with shard.encoder.exactly():  # every pass decides whether an image fails
        reps = represent(shard, x)
    return (event(reps[:, None].double(), torch.arange(len(reps))).squeeze(1) > CLEARLY).double().cpu()
