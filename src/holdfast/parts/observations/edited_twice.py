"""Images after the pair of edits that was chosen as the most harmful one on other images."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Passes, Shard
from holdfast.parts.observations.harmful_pair import HarmfulPair, find_failures
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.noisy import evaluate_clean
from holdfast.runtime.errors import Missing


@dataclass(frozen=True)
class EditedTwice(OfFirst):
    """Which images fail: `together` [M], after both edits; `first` and `second` [M], after one of them; 1 or 0.

    Also `wrong` [M]: whether the image fails as it is. NaN where no pair was chosen. Only images that had no part in
    the choice are judged.

    Attributes:
        chosen: which pair.
    """

    chosen: HarmfulPair = HarmfulPair()

    @property
    @override
    def title(self) -> str:
        return f"images after the most harmful pair of {len(self.chosen.edits)} edits: {self.chosen.failure.title}"

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them; none that had a part in the choice."""
        return super().images(population, self.chosen.count_held_out(population, attacked))

    @property
    def passes(self) -> Passes:
        """Both edits together, and each alone."""
        return Passes(forward=3)

    @property
    def adaptive(self) -> bool:
        """Where no pair was chosen nothing is looked at."""
        return True

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Look at one shard.

        Raises:
            HoldfastError: an edit that these images do not fit, or a representation that is not finite.
        """
        if shard.read is None:
            raise Missing("edited_twice: harmful_pair must be observed before images are judged after its pair")
        event, chosen = self.chosen.failure.bind(shard), shard.read(self.chosen)
        first, second = chosen["pair"].tolist()
        wrong = (evaluate_clean(shard, event) > 0).double()
        # No pair was chosen, so nothing is looked at but the images as they are
        if first < 0:
            none = torch.full_like(wrong, torch.nan)
            return {"together": none, "first": none, "second": none, "wrong": wrong}
        both = self.chosen.build_edits((first, second), chosen["strength"])
        # Both edits in their order, and each of them alone at the same strength
        failed = {"together": both, "first": both[:1], "second": both[1:]}
        return {name: find_failures(shard, event, links) for name, links in failed.items()} | {"wrong": wrong}
