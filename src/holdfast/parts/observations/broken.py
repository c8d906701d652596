"""Images that an attack makes fail: the value of a failure as what the adversary maximises."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Album, Attack, Ball, Failure, Images, Passes, PerImage, Reps, Search, Shard
from holdfast.core.album import Entries
from holdfast.core.registry import part_name
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.failures.hub import Hub
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.hub_pictures import KEPT, hub_pictures
from holdfast.parts.observations.shared.noisy import evaluate_clean
from holdfast.parts.observations.shared.smallest_changes import pack_first_changes
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Broken(OfFirst):
    """The largest value of a failure that an attack found in the ball, as `value` [M]: above 0 where it fails.

    Also `wrong` [M]: whether the image fails without a disturbance; `clean` [M], the value there; `values` [M, steps +
    1], the value along the search; `reps` [M, D], the representation of the image that the attack ended at. Of hubs
    the changes of the first images, see `pack_first_changes`.

    Attributes:
        attack: how to search.
        ball: where to search.
        failure: what to bring about; for classes its value is the classification margin of C&W.

    Source: Wang et al. (2025), Def. 1.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf()
    failure: Failure = Nearest()

    @property
    @override
    def title(self) -> str:
        place = self.ball.title
        return f"attacked: {part_name(self.attack)}, {place}: {self.failure.title}"

    @property
    @override
    def searches(self) -> tuple[Search, ...]:
        return (Search(self.attack, self.ball, self.failure),)

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return the representation of the image that the attack ended at."""
        return results["reps"][:, None] if ball.contains(self.ball) else None

    @property
    def passes(self) -> Passes:
        """Those of the attack."""
        return self.attack.passes_in(self.ball)

    @property
    def reevaluations(self) -> int:
        """The image that the attack ends at."""
        return 1

    @property
    def shows(self) -> Literal["", "hubs"]:
        """Hubs, and whose searches they take."""
        return "hubs" if isinstance(self.failure, Hub) else ""

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> Entries:
        """Leave pictures of the hubs that take most searches."""
        return hub_pictures(self.failure, results, album) if isinstance(self.failure, Hub) else []

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        event, rows = self.failure.bind(shard), torch.arange(len(shard.x))

        def goal(x: Images) -> tuple[PerImage, Reps]:
            reps = shard.encoder(x)
            # float32 for the search alone; what it ends at is judged in float64 below
            return event(reps[:, None], rows).squeeze(1).float(), reps

        # NPPR, Def. 1: the point of the ball with the largest loss, as far as the attack finds it
        trajectory = self.attack(goal, shard.x, self.ball, shard.rng).reevaluate(goal, shard.encoder)
        reps, clean = trajectory.reps[max(trajectory.reps)], evaluate_clean(shard, event)
        changes = {}
        if self.shows:
            changes = pack_first_changes(trajectory.images[max(trajectory.images)] - shard.x, shard.positions, KEPT)
        return changes | {
            "value": event(reps[:, None].double(), rows).squeeze(1).cpu(),
            "wrong": (clean > 0).double(),
            "clean": clean,
            "values": trajectory.values.T.float().contiguous().cpu(),
            "reps": reps.float().cpu(),
        }
