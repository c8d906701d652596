"""The adversary of adversarial training: any attack, in any ball, on any objective or on the training loss itself."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import (
    Attack,
    Ball,
    Batch,
    Corruption,
    Goal,
    Images,
    Noise,
    Objective,
    PerImage,
    Reps,
    Rng,
    Student,
    Threat,
    View,
    registry,
)
from holdfast.core.own_ball import require_kept
from holdfast.runtime.checked import Checked
from holdfast.runtime.distributed import gather, processes, share
from holdfast.runtime.errors import BadValue, Conflict, Unsupported

FINE: Attack = registry.part("attacks", "pgd", steps=20)
"""What the attack of a training is compared with."""


@dataclass(frozen=True)
class Adversary(metaclass=Checked):
    """min_θ  clean · L(x_0, x_1, ...) + weight · L(x', x_1, ...),  x' = attack(x_0) in the ball around the first view.

    The attack sees the network in eval mode. Where the threat is no ball but a noise (also a learned mixture, of the
    representations in eval mode), x' is drawn from it. L̄-PGD attacks L itself ("loss"); TAR is `targeted`, each image
    towards the representation of the next one of the batch's other views; UNTAR is `untargeted`. Fast training is one
    step of PGD from a random start, `Pgd(steps=1, step_size=1.25 ε, keep="last")`. AdvCL is `joint`, with high_pass=8
    (of 32 pixels), clean=0 and L itself attacked. RoCL attacks L of SimCLR, and has clean=0, weight=1, rocl=1/256:

        min_θ  M(x_0, x_1, x') + rocl · M(x', x_1),  where the mutual loss M tells each view from all others (`Simclr`).

    Attributes:
        threat: where x' may be: a ball, or a noise from which it is drawn.
        attack: the search for the worst x' in a ball.
        objective: what the attack maximises; None: the training loss itself, batch-wise.
        space: whether objectives compare representations, or the projections that the loss reads.
        clean: weight of the loss of undisturbed views.
        weight: weight of the loss of disturbed ones.
        joint: whether x' joins the views instead of standing for the first one: weight · L(x_0, x_1, x'), see `Simclr`.
        high_pass: radius in cycles per image; the joint loss has a further view, clamp(x_0 - LowPass(x_0) + 1/2): what
            is as coarse as this or coarser gives way to grey. None: no such view.
        rocl: weight 1/λ of the pair x', x_1 beside the mutual loss of all views and x'; 0: no mutual loss. What is
            attacked is L(x', x_1) alone.
        check_every: steps between two comparisons with a finer attack, see `measure_coarseness`; 0: none.
        mend: whether a finer attack follows, and half the rate, where this one has become too coarse.
        free: steps of the optimiser that every batch is learned from. Where there are several, none is spent on an
            attack: x' begins at random, and the gradient of each step moves it by ε for the next (free training; there
            x' - x_0 is handed on to the next batch's other images, here each batch begins anew).

    Source: "Robustness of unsupervised representation learning without labels", section 4.4, A.2 and listings 1 to 3;
    Kim et al. (2020), "Adversarial self-supervised contrastive learning" (RoCL); Fan et al. (2021), "When does
    contrastive learning preserve adversarial robustness" (AdvCL); Shafahi et al. (2019), "Adversarial training for
    free!"; Wong et al. (2020), "Fast is better than free".
    """

    threat: Threat = registry.part("threats", "linf", radius=0.05)
    attack: Attack = registry.part("attacks", "pgd", steps=3, keep="last")
    objective: Objective | None = registry.part("objectives", "untargeted")
    space: str = "representation"
    clean: float = 1.0
    weight: float = 1.0
    joint: bool = False
    high_pass: float | None = None
    rocl: float = 0.0
    check_every: int = 50
    mend: bool = True
    free: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.clean < math.inf and 0 < self.weight < math.inf):
            raise BadValue(f"adversary: expected clean >= 0 and weight > 0, got {self.clean} and {self.weight}")
        if self.space not in ("representation", "projection"):
            raise BadValue(f"adversary: space: expected representation or projection, got {self.space!r}")
        if self.high_pass is not None and not (self.joint and self.high_pass > 0):
            raise BadValue(
                f"adversary: high_pass={self.high_pass}: expected a radius above 0, and joint=true: it is a view of "
                "the joint loss"
            )
        if self.rocl and self.joint:
            raise Conflict(f"adversary: rocl={self.rocl:g}: expected joint=false, for they are two losses; keep one")
        # Free training brings x' + gradient back into a ball, which a noise does not have
        if self.free < 1 or (self.free > 1 and not isinstance(self.threat, Ball)):
            raise BadValue(f"adversary: free: expected at least 1, and a ball for more than 1, got {self.free}")

    def further(self, views: Sequence[View]) -> list[Images] | None:
        """Views that one loss reads beside the views and the disturbed one; None where it does not read them all."""
        if self.high_pass is None:
            return [] if self.joint or self.rocl else None
        # AdvCL's view without coarse parts, HighPass(x) of appendix A.2; nothing is drawn for it
        lowpass: Corruption = registry.part("threats", "lowpass", radius=self.high_pass, side=views[0].shape[-1])
        low = lowpass.sample(views[0], Rng(0))
        # 1/2 makes room for differences of both signs; what leaves [0, 1] is cut off
        return [(views[0] - low + 0.5).clamp(0, 1)]

    def disturb(
        self, student: Student, views: Sequence[View], batch: Batch, rng: Rng, before: Sequence[Images] = ()
    ) -> list[Images]:
        """Return disturbed versions of the first view."""
        x = views[0]
        if not isinstance(self.threat, Ball):
            return [self._draw_sample(student, x, batch, rng)]
        if self.free > 1:
            # Free training reuses the gradient of the last step, so that no pass is spent on an attack
            return [
                self._take_step(self.threat, x, before[0]) if before else self.threat.sample(x, rng).requires_grad_()
            ]
        # The inner problem of section 4.4; in eval mode no statistic of BatchNorm moves, and no unit is dropped
        with use_eval_mode(student):
            goal = self._goal(student, views, batch)
            attacked = self.attack.worst(goal, x, self.threat, rng).detach()
            require_kept(self.attack, self.threat, x, attacked)
            return [attacked]

    def measure_coarseness(self, student: Student, views: Sequence[View], batch: Batch, rng: Rng) -> float:
        """Return how much more a fine attack finds than the training's own: Σ g(x_f) - g(x) / Σ g(x') - g(x).

        g is what the attack maximises, x_f what PGD of 20 steps of ε/8 finds. A network may learn to beat the few large
        steps that it is attacked with instead of the ball: then the loss under them falls while the loss under a finer
        attack rises (catastrophic overfitting, Wong et al. 2020), and this grows. Free training is compared by FGSM
        from a random start, which its own steps amount to.

        Returns:
            about 1 to 1.5 where the attack is good for the training; inf where it finds nothing but a finer one does.
        """
        ball, x = self.threat, views[0]
        assert isinstance(ball, Ball)
        once = registry.part("attacks", "pgd", steps=1, step_size=ball.radius, keep="last")
        # As the attack of a step sees the network: no statistic of BatchNorm moves, and no unit is dropped
        with use_eval_mode(student):
            goal = self._goal(student, views, batch)

            def worth(at: Images) -> Tensor:
                with torch.no_grad():
                    return goal(at)[0].double().sum()

            attacked = [
                attack.worst(goal, x, ball, rng.child("check", number)).detach()
                for number, attack in enumerate((once if self.free > 1 else self.attack, FINE))
            ]
            # the sums over the images of all processes
            values = torch.stack([worth(x), *map(worth, attacked)])
            clean, own, fine = gather(values[None].float()).sum(0).tolist()
        # A rise over the clean image, since some losses have no natural zero
        if own > clean:
            return max(1.0, (fine - clean) / (own - clean))
        return math.inf if fine > clean else 1.0

    def _draw_sample(self, student: Student, x: Images, batch: Batch, rng: Rng) -> Images:
        threat = self.threat
        if isinstance(threat, Noise) and type(threat).at is not Noise.at:  # it asks what is known of the images
            # Batches number their classes from 0; a noise knows the labels that the data give
            labels = None
            if batch.labels is not None and batch.classes is not None:
                labels = torch.tensor(batch.classes, device=x.device)[share(batch.labels)]
            with use_eval_mode(student), torch.no_grad():
                threat = threat.at(student.encoder(x), labels)
        return threat.sample(x, rng)

    def _take_step(self, ball: Ball, x: Images, before: Images) -> Images:
        assert before.grad is not None
        gradient = before.grad.nan_to_num(0, 0, 0)  # of a step that mixed precision left out
        # x' + ε · ascend(gradient), brought back into the ball: for ℓ∞ a step of FGSM
        return ball.step(x, before.detach(), gradient, ball.radius).requires_grad_()

    def _goal(self, student: Student, views: Sequence[View], batch: Batch) -> Goal:
        if self.objective is None:
            return _loss_goal(student, views, None if self.rocl else self.further(views), batch)
        if self.objective.batchwise and processes() > 1:
            raise Unsupported(
                "adversary: this objective couples the images of a batch, which several processes share here; attack "
                "the training loss itself (leave the objective out), or train in one process"
            )
        with torch.no_grad():
            # Clean representations are constants of the goal, without a gradient
            clean = self._points(student, views[0], student.reference)
            target = None
            if self.objective.needs_target:
                # Listings 1 and 2 roll the second view by one image, listing 3 the only one
                alone = len(views) < 2 or student.same_view
                points = clean if alone else self._points(student, views[1], student.reference)
                # Among the images of all processes, so that the targets do not depend on how many share the batch
                target = share(gather(points).roll(1, 0))
        return self.objective.pursue(lambda x: self._points(student, x, student.encoder), clean, target)

    def _points(self, student: Student, x: Images, encode: Callable[[Images], Reps]) -> Reps:
        reps = encode(x)
        if self.space == "representation":
            return reps
        out, _ = student.heads(reps, None)
        assert out is not None
        return out


def _loss_goal(student: Student, views: Sequence[View], further: Sequence[Images] | None, batch: Batch) -> Goal:
    """Return the training loss of the batch with its first view attacked, divided among its images.

    What a twin makes of the attacked view is not attacked (listing 2).
    """
    # A joint loss reads the first view as well; in any other the attacked one stands in its place
    first, more = (1, ()) if further is None else (0, further)
    # The other views stay as they are during the attack: they are encoded once, not at every step
    with torch.no_grad():
        # Further views are versions of the first one and take its part
        roles = [*range(first, len(views)), *[0] * len(more)]
        encoded = student.see([*views[first:], *more], roles, batch=batch)
    unattacked, joined = encoded[: len(views) - first], None if further is None else encoded[len(views) :]

    def goal(x: Images) -> tuple[PerImage, Tensor]:
        (view,) = student.see([x], [0], targets=False, batch=batch)
        assert view.rep is not None
        loss = student.worst(view, unattacked, joined, batch)
        # The attack sums over images: its gradient is that of the loss of the batch, L̄-PGD of section 4.3
        return (loss / len(x)).expand(len(x)), share(view.rep)

    return goal


@contextmanager
def use_eval_mode(student: Student) -> Iterator[None]:
    """Run the student in eval mode; afterwards it is in training mode again."""
    student.eval()
    try:
        yield
    finally:
        student.train()
