"""The adversary of adversarial training: any attack, in any ball, on any objective or on the training loss itself."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.attacks.pgd import Pgd
from holdfast.core import Attack, Ball, Goal, HoldfastError, Images, Objective, PerImage, Reps, Rng, Threat
from holdfast.methods._gather import gather, processes, share
from holdfast.methods._student import Batch, Student
from holdfast.objectives.untargeted import Untargeted
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class Adversary:
    """min_θ  clean · L(x_0, x_1) + weight · L(x', x_1),  x' = attack(x_0) in the ball around the first view.

    The attack sees the network in eval mode. Where the threat is no ball but a noise (also a learned mixture), x' is
    drawn from it. L̄-PGD attacks L itself ("loss"); RoCL is that with SimCLR; TAR is `targeted`, each image towards the
    representation of the next one of the batch's other views; UNTAR is `untargeted`.

    Attributes:
        threat: where x' may be: a ball, or a noise from which it is drawn.
        attack: the search for the worst x' in a ball.
        objective: what the attack maximises; None: the training loss itself, batch-wise.
        space: whether objectives compare representations, or the projections that the loss reads.
        clean: weight of the loss of undisturbed views.
        weight: weight of the loss of disturbed ones.

    Source: "Robustness of unsupervised representation learning without labels", section 4.4 and listings 1 to 3; Kim et
    al. (2020), "Adversarial self-supervised contrastive learning" (RoCL).
    """

    threat: Threat = Linf(0.05)
    attack: Attack = Pgd(steps=3, step_size=0.005, keep="last")
    objective: Objective | None = Untargeted()
    space: Literal["representation", "projection"] = "representation"
    clean: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (0 <= self.clean < math.inf and 0 < self.weight < math.inf):
            raise HoldfastError(f"adversary: expected clean >= 0 and weight > 0, got {self.clean} and {self.weight}")
        if self.space not in ("representation", "projection"):
            raise HoldfastError(f"adversary: space: expected representation or projection, got {self.space!r}")

    def disturb(self, student: Student, views: Sequence[Images], batch: Batch, rng: Rng) -> list[Images]:
        """Return disturbed versions of the first view.

        Args:
            student: what is trained; it is left as it was.
            views: the views of this process, each [b, C, H, W].
            batch: what is known of the images of all processes.
            rng: random numbers bound to the ids of this process's images.

        Raises:
            HoldfastError: an objective that couples a batch which several processes share.
        """
        x = views[0]
        if not isinstance(self.threat, Ball):
            return [self.threat.sample(x, rng)]
        with untouched(student):
            goal = self._goal(student, views, batch)
            found = self.attack(goal, x, self.threat, rng)
        return [found.images[self.attack.steps].detach()]

    def _goal(self, student: Student, views: Sequence[Images], batch: Batch) -> Goal:
        if self.objective is None:
            return _loss_goal(student, views, batch)
        if self.objective.batchwise and processes() > 1:
            raise HoldfastError(
                "adversary: this objective couples the images of a batch, which several processes share here; attack "
                "the training loss itself (leave the objective out), or train in one process"
            )
        with torch.no_grad():
            clean = self._points(student, views[0])
            target = None
            if self.objective.needs_target:
                other = clean if len(views) < 2 or student.same_view else self._points(student, views[1])
                target = share(gather(other).roll(1, 0))
        return self.objective.pursue(lambda x: self._points(student, x), clean, target)

    def _points(self, student: Student, x: Images) -> Reps:
        reps = student.encoder(x)
        if self.space == "representation":
            return reps
        out, _ = student.heads(reps, None)
        assert out is not None
        return out


def _loss_goal(student: Student, views: Sequence[Images], batch: Batch) -> Goal:
    """Return the training loss of the batch with its first view replaced, divided among its images."""
    with torch.no_grad():
        others = student.see(views[1:], range(1, len(views)), batch=batch)

    def goal(x: Images) -> tuple[PerImage, Tensor]:
        (seen,) = student.see([x], [0], targets=False, batch=batch)
        assert seen.rep is not None
        loss = student.loss([seen, *others], batch)
        return (loss / len(x)).expand(len(x)), share(seen.rep)

    return goal


@contextmanager
def untouched(student: Student) -> Iterator[None]:
    """Run the student in eval mode; afterwards it is in training mode again."""
    student.eval()
    try:
        yield
    finally:
        student.train()
