"""Attacked representations: one trajectory of an attack, read out at the step counts that measures ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Album, Attack, Ball, Objective, Observation, Passes, Positions, Search, Shard
from holdfast.core.chart import Chart, Curves, Line, numbers
from holdfast.core.registry import part_name
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.shared.gallery import farthest, gallery
from holdfast.parts.observations.shared.judged_again import reevaluate_with_new_draws
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue


def partners(positions: Positions) -> Positions:
    """Return the other half of each image's pair: 0-1, 2-3, 4-5, ...

    The population is in a seeded random order, so neighbours in it are a random matching. Each pair is attacked in
    both directions by one attack per image; pairs have no image in common, so they are independent of each other.
    """
    # The last bit of a position tells the two halves of a pair apart
    return positions ^ 1


def pair_of(positions: Positions) -> Positions:
    """Return the number of the pair that each image belongs to; see `partners`."""
    return positions // 2


@dataclass(frozen=True)
class Attacked(Observation):
    """f(x') for the images that an attack found in a ball, as `reps@STEP` [M, D] for every read-out.

    Also `values` [M, steps + 1], the objective along the trajectory, and, for untargeted ones on all images, the
    changes that moved images farthest (`gallery`); `apart` [M], the objective between each image and its partner as
    they are. Targeted objectives aim at the image's partner, see `partners`. Of a mean over draws what was found is
    represented by others too (`redrawn`).

    Where searches run in reduced precision, what is read out is made again in float32; `values` between the read-outs
    are then what the search saw.

    Attributes:
        attack: how to search.
        ball: where to search.
        objective: what to maximise.
        readouts: step counts to report; they cost nothing. The last step when empty.
        first: attack only the first images; None: all that the audit attacks.
    """

    attack: Attack = Pgd()
    ball: Ball = Linf()
    objective: Objective = Untargeted()
    readouts: tuple[int, ...] = ()
    first: Count | None = None

    def __post_init__(self) -> None:
        if self.objective.batchwise:
            raise BadValue(
                f"{type(self.objective).__name__} couples the images of a batch, so an audit's numbers would depend "
                "on the batch size; use it in training or call the attack directly"
            )

    @property
    @override
    def title(self) -> str:
        words = f"{part_name(self.objective)} {getattr(self.objective, 'divergence', '')}".strip()
        ball = self.ball.title
        first = f", first {self.first}" if self.first is not None else ""
        return f"{words}: {part_name(self.attack)}, {self.attack.steps} steps, {ball}{first}"

    @property
    @override
    def searches(self) -> tuple[Search, ...]:
        return (Search(self.attack, self.ball, self.objective),)

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return the representations at its read-outs."""
        if not ball.contains(self.ball):
            return None
        return torch.stack([results[f"reps@{step}"] for step in self.steps], 1)

    def key(self) -> Observation:
        """Read-outs, images, and steps beyond those of another do not change an image's trajectory."""
        return replace(self, attack=self.attack.canonicalise_prefix(), readouts=(), first=None)

    def join(self, twin: Observation) -> Observation:
        """Read out wherever either does, on as many images as the larger one needs."""
        assert isinstance(twin, Attacked)  # equal keys
        # The longer trajectory contains the shorter one: steps do not depend on how many follow
        attack = max(self.attack, twin.attack, key=lambda attack: attack.steps)
        readouts = tuple(sorted({*self.steps, *twin.steps}))
        first = None if self.first is None or twin.first is None else max(self.first, twin.first)
        return replace(self, attack=attack, readouts=readouts, first=first)

    @property
    def steps(self) -> tuple[int, ...]:
        """The read-outs, the last step when none are asked for."""
        return self.readouts or (self.attack.steps,)

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them."""
        return attacked if self.first is None else min(self.first, attacked)

    @property
    def passes(self) -> Passes:
        """Those of the attack, up to the last read-out."""
        return self.attack.truncate(max(self.steps)).passes_in(self.ball)

    @property
    def reevaluations(self) -> int:
        """Every read-out."""
        return len(self.steps)

    @property
    def redraw_evaluations(self) -> int:
        """Every read-out."""
        return len(self.steps)

    @property
    def shows(self) -> Literal["", "gallery"]:
        """Where images are moved as far as they go: those that went farthest."""
        return "gallery" if self.first is None and isinstance(self.objective, Untargeted) else ""

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> list[dict[str, Any]]:
        """Leave pictures of the images that went farthest, see `gallery`."""
        return gallery(results, album)

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        assert shard.clean is not None  # clean representations are always observed first
        places = (shard.positions, partners(shard.positions))
        own, other = (shard.clean[place].to(shard.x.device) for place in places)  # these alone go to the device
        target = other if self.objective.needs_target else None
        # The supremum of Eq. 1 where there is no target, the infimum of Eq. 2
        # towards the partner where there is
        goal = self.objective.pursue(shard.encoder, own, target)
        # No step beyond the last read-out is made
        attack = self.attack.truncate(max(self.steps))
        trajectory = attack(goal, shard.x, self.ball, shard.rng, self.steps).reevaluate(goal, shard.encoder)
        results = {f"reps@{step}": reps.float() for step, reps in trajectory.reps.items()}
        # Of a randomised encoder, judged by draws that the search has not seen
        for step in self.steps:
            results |= reevaluate_with_new_draws(shard.encoder, trajectory.images[step], f"reps@{step}")
        # [steps + 1, M] -> [M, steps + 1]: every tensor that is observed has a row for each image
        results["values"] = trajectory.values.T.float().contiguous()
        # What the objective says of two clean images, the unit of the chart
        results["apart"] = self.objective.of(shard.encoder)(other, own, own)
        if not self.objective.needs_target and self.first is None:
            last = max(self.steps)
            delta = trajectory.images[last] - shard.x
            results |= farthest(results[f"reps@{last}"], own, delta, shard.positions)
        return results

    def charts(self, results: Mapping[str, Tensor], clean: Float[Tensor, "population dim"]) -> tuple[Chart, ...]:
        """Return the objective along the attack: the median over images, with a band from 10 to 90 % of them.

        In units of the median objective between a clean image and its partner, so that encoders can be compared.
        """
        if self.first is not None:
            return ()
        # in units of the median objective between a clean image and its partner
        scale = float(results["apart"].abs().median()) or 1.0
        shares = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
        steps = [(column.double() / scale).quantile(shares) for column in results["values"].unbind(1)]  # one by one
        low, median, high = torch.stack(steps, 1)  # since torch has no quantiles of more than 16 million numbers
        # median over images against the step, with the band from 10 to 90 %
        line = Line(tuple(range(len(median))), numbers(median), numbers(low), numbers(high))
        chart = Curves(
            heading="What the attacks maximised",
            short="objective",
            how_to_read=(
                "The objective of each attack at each step, in units of the median distance between two clean images. "
                "Line: median over images; band: 10 to 90 % of them. Targeted attacks rise towards 0, where they have "
                "reached the target image."
            ),
            title=self.title,
            lines=(line,),
            across="attack steps",
            label="what the attack maximises",
            summary=f"Attack objective against steps, {self.title}: median and 10 to 90 % of the images.",
        )
        return (chart,)
