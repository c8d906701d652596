"""Fooled: which attack of an ensemble was the first to make a linear head on the representation wrong."""

from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import one_hot
from typing_extensions import override

from holdfast.core import Attack, Ball, Event, Head, Images, LinearProbe, Objective, Passes, Reps, Search, Shard
from holdfast.core.registry import part_name
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.minimum_norm import MinimumNorm, within
from holdfast.parts.attacks.square import Square
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.objectives.dlr import Dlr
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.margins import clean_of
from holdfast.parts.observations.shared.noisy import wrong
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue
from holdfast.runtime.waiting import at_hand, move_to

EVERY = 8
"""Passes on a device after which the host looks, and so waits, which images are left; the others pass until then."""

WRONG, NEVER = -2, -1
"""Instead of a member: the head is wrong without an attack; no member has fooled it."""


@dataclass(frozen=True)
class Fooled(OfFirst):
    """The first member of an ensemble that fooled the head h, as `broken_by` [M]; -2 wrong from the start, -1 never.

    Members go one after the other, each at the images that are still classified rightly. Every image x' of the ball
    that a member looks at counts, not its result alone: fooled is max_{j≠y} z_j >= z_y for the logits z = h(f(x')), a
    tie included. Of an image that is fooled nothing more is asked, so it costs no further pass (on a GPU a few). A
    member draws what it would draw alone, so an ensemble leaves no image standing that a member of it fools alone.
    Members for single classes (`rank` of `dlr` and `class_margin`) make AutoAttack's targeted parts.

    Attributes:
        attacks: how each member searches.
        objectives: what each member maximises, a function of the logits.
        ball: where they search.
        probe: how the head comes about; trained on images that are not attacked.

    Source: AutoAttack, Croce & Hein (2020a).
    """

    attacks: tuple[Attack, ...] = (Apgd(100), Apgd(100), MinimumNorm(100), Square(1000))
    objectives: tuple[Objective, ...] = (CrossEntropy(), Dlr(), ClassMargin(), ClassMargin())
    ball: Ball = Linf()
    probe: LinearProbe = Linear()

    reads_labels = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.attacks or len(self.attacks) != len(self.objectives):
            raise BadValue(
                f"fooled: expected an objective for each attack, and one attack or more, got {len(self.attacks)} "
                f"attacks and {len(self.objectives)} objectives"
            )
        for objective in self.objectives:
            if objective.batchwise:
                raise BadValue(
                    f"fooled: {part_name(objective)} couples the images of a batch; take cross_entropy, dlr or "
                    "class_margin"
                )

    @property
    def members(self) -> tuple[str, ...]:
        """What each member is called: its attack, its objective, and the rank of the class that it goes for."""
        parts = zip(self.attacks, self.objectives, strict=True)
        ranks = [getattr(objective, "rank", 0) for objective in self.objectives]
        names = [f"{part_name(attack)}, {part_name(objective)}" for attack, objective in parts]
        return tuple(f"{name} {rank}" if rank else name for name, rank in zip(names, ranks, strict=True))

    @property
    @override
    def title(self) -> str:
        place = self.ball.title
        return f"fooled, {part_name(self.probe)}, {place}: {'; '.join(self.members)}"

    @property
    def searches(self) -> tuple[Search, ...]:
        """A misclassification, as the first member that follows gradients seeks it; the ensemble is no weaker."""
        gradient = [attack for attack in self.attacks if attack.passes.backward]
        return (Search((gradient or self.attacks)[0], self.ball, Misclassified(self.probe)),)

    @property
    def adaptive(self) -> bool:
        """Images that are fooled are done."""
        return True

    @property
    def passes(self) -> Passes:
        """Those of all members: the most that an image can cost; one that is fooled early costs less."""
        return sum((attack.passes_in(self.ball) for attack in self.attacks), Passes())

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Attack the images of one shard.

        Raises:
            HoldfastError: images without labels, or of a class that the head does not know.
        """
        event = Misclassified(self.probe).bind(shard)
        # Images that the head gets wrong as they are need no attack
        broken_by = torch.where(wrong(shard, event) > 0, WRONG, NEVER)
        for number, (attack, objective) in enumerate(zip(self.attacks, self.objectives, strict=True)):
            # Each member sees what all members before it have left standing
            rows = (broken_by == NEVER).nonzero().flatten()
            if len(rows):
                broken_by[rows[self._find_fooled(shard, attack, objective, event, rows)]] = number
        return {"broken_by": broken_by}

    def _find_fooled(
        self, shard: Shard, attack: Attack, objective: Objective, event: Event, rows: Int[Tensor, "rows"]
    ) -> Bool[Tensor, "rows"]:
        """Return which of some images of the shard a member fools."""
        x, at = shard.x[rows], shard.positions[rows]
        assert shard.head is not None  # the event needs it too
        assert shard.labels is not None
        head = _move_head(shard.head(self.probe), x)
        # Objectives of logits read the class as a one-hot row, [rows, C]
        target = one_hot(head.numbers(shard.labels[at]), len(head.classes)).to(head.weights)
        fooled = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        scores = start = head.scores(clean_of(shard)[at])
        places, left, looks = move_to(rows, x.device), torch.arange(0), 0

        def logits(moved: Images) -> Reps:
            # images that are fooled keep the logits that they had then, which lead nowhere
            nonlocal scores, left, looks
            # Reading `fooled` makes the host wait for a device, so there
            # it is read every few looks only
            if at_hand(fooled) or looks % EVERY == 0:
                left = (~fooled).nonzero().flatten()
                if not len(left):
                    raise _Done
            looks += 1
            reps = shard.encoder(moved[left])
            with torch.no_grad():
                mistaken = event(reps[:, None], places[left]).squeeze(1) > 0
                # Some attacks look outside the ball; only what lies inside counts
                fooled[left] |= within(self.ball, x[left], moved[left]) & mistaken
            own = head.scores(reps)
            # A gradient reaches the images that are left; the others have
            # constant logits, which no step changes
            now = scores.to(own).index_copy(0, left, own)
            scores = now.detach()
            return now

        goal = objective.pursue(logits, start, target)
        with shard.encoder.exactly(), suppress(_Done):  # every pass decides
            # Random numbers by image, as if the member attacked this image alone
            attack(goal, x, self.ball, shard.rng.at([shard.rng.ids[row] for row in rows.tolist()]))
        return fooled.cpu()


class _Done(Exception):
    """Every image is fooled: the search may end."""


def _move_head(head: Head, x: Tensor) -> Head:
    """Return the head on the device of a tensor; its classes stay where labels are."""
    return replace(head, weights=head.weights.to(x.device), bias=head.bias.to(x.device))
