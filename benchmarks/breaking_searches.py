"""Searches for the smallest change after which an image is taken for another one, ours and those of others.

Each gets the same problem and a budget T of passes for each image, where a pass is (forward + backward) / 2, and
returns images, x itself where it broke nothing. An image counts as broken for all of them above `CLEARLY`, which no
rounding reaches.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, Goal, Images, Margin, PerImage, Reps, Rng, Shard
from holdfast.core.divergence import read_divergence
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.minimum_norm import NUDGE
from holdfast.parts.attacks.shared.minimal import HALVINGS, minimal_radius
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.breaking_radii import CLEARLY, BreakingRadii
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf

BALLS: dict[str, Ball] = {"linf": Linf(0.1), "l2": L2(1.0)}
"""Norms; the radius matters only to the random point from which the single descent starts."""

FIRST = {"linf": 0.03, "l2": 0.7}
"""Radius at which bisection begins, in pixels."""

LOOKS = 6
"""Passes that eleven looks without a gradient are worth: foolbox's way from a starting point to the boundary."""

TEMPERATURE = 10.0
"""Logit of the image's own class over its nearest rival without a disturbance: of order 1, as classifiers have it."""


class Problem:
    """Some attacked images of a population, and the event that another clean representation is strictly nearer.

    Args:
        encoder: the encoder.
        population: all images, [N, C, H, W]; the first of them are attacked.
        attacked: how many.
    """

    def __init__(self, encoder: Encoder, population: Images, attacked: int):
        self.encoder, self.x, self.rows = encoder, population[:attacked], torch.arange(attacked)
        with torch.no_grad():
            clean = torch.cat([encoder(batch) for batch in population.split(64)])
        rng = Rng(0, ids=tuple(str(i) for i in range(attacked)))
        self.shard = Shard(encoder, self.x, self.rows, rng, clean, others=lambda positions: population[positions])
        self._event = Nearest().bind(self.shard)
        # every other image as a class, the nearest first
        rivals = Nearest().rivals(self.shard)
        assert rivals.positions is not None  # every rival is an image
        self.nearest = population[rivals.positions[:, 0]]
        assert isinstance(rivals.margins, Margin)  # of a linear divergence
        self._margins = rivals.margins
        self._room = read_divergence("l2").between(clean[self.rows], clean[rivals.positions[:, :1]])(
            clean[self.rows].double()
        )

    def value(self, reps: Reps, rows: Tensor) -> PerImage:
        """Return the value of the event in float64: -1 at x, above 0 where another image is nearer."""
        return self._event(reps[:, None].double(), rows).squeeze(1)

    def goal(self, rows: Tensor) -> Goal:
        """Return the event of some images as a goal."""

        def goal(x: Images) -> tuple[PerImage, Reps]:
            reps = self.encoder(x)
            return self.value(reps, rows).to(x), reps

        return goal

    def classifier(self, rows: Tensor) -> nn.Module:
        """Return the event of some images as a classifier whose class 0 is the image itself, for `foolbox`.

        Its logits are -||f(x') - f_k||² less -||f(x') - f_i||², which changes no loss that foolbox knows, over the
        squared distance of the nearest rival. Twins of the image are classes that are never taken.
        """
        margins = Margin(self._margins.weights[rows], self._margins.bias[rows])
        room, encoder = self._room[rows], self.encoder

        class Classifier(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                ahead = -margins(encoder(x).double()) / room
                own = torch.full_like(ahead[:, :1], CLEARLY)
                return (TEMPERATURE * torch.cat([own, ahead], 1)).float()

        return Classifier().eval()

    @torch.no_grad()
    def radii(self, images: Images, ball: Ball) -> list[float]:
        """Return the distance of each image in pixels, inf where it is not broken or leaves [0, 1]."""
        pixels = images.flatten(1)
        broken = self.value(self.encoder(images), self.rows) > 0
        inside = (pixels.amin(1) >= -1e-6) & (pixels.amax(1) <= 1 + 1e-6)
        size = ball.size(images.double() - self.x.double())
        return torch.where(broken & inside, size, torch.inf).tolist()


Search = Callable[[Problem, str, int], Images]
"""(problem, norm, passes for each image) -> the smallest broken images that it found."""


def holdfast(problem: Problem, norm: str, budget: int) -> Images:
    """Return the images behind the radii that an audit reports: of all that pass through the encoder, the smallest.

    Raises:
        RuntimeError: a radius that belongs to no image that was looked at.
    """
    ball, x = BALLS[norm], problem.x
    radius, image = torch.full((len(x),), torch.inf), x

    def look(module: nn.Module, inputs: tuple[Tensor, ...], reps: Tensor) -> None:
        nonlocal radius, image
        at = inputs[0].detach()
        size = ball.size(at - x)
        smaller = (problem.value(reps.detach(), problem.rows) > CLEARLY) & (size < radius)
        radius = torch.where(smaller, size, radius)
        image = torch.where(smaller[:, None, None, None], at, image)

    watching = problem.encoder.register_forward_hook(look)
    try:
        reported = BreakingRadii(ball, steps=budget).run(problem.shard)["radius"]
    finally:
        watching.remove()
    if not torch.equal(reported, radius.double()):
        raise RuntimeError(f"expected radii of images that were looked at, {radius.tolist()}, got {reported.tolist()}")
    return image


def single(problem: Problem, norm: str, budget: int) -> Images:
    """Return what one descent finds that pursues the event itself, from a random point near x."""
    ball, x = BALLS[norm], problem.x
    start = x + NUDGE * (ball.sample(x, problem.shard.rng.child("single")) - x)

    def breaks(reps: Reps) -> Tensor:
        return problem.value(reps, problem.rows) > CLEARLY

    steps = budget - (1 + HALVINGS + 1) // 2  # one look at the last iterate and the halvings are half a pass each
    return minimal_radius(problem.goal(problem.rows), breaks, x, ball, steps, start=start)[1]


def bisection(problem: Problem, norm: str, budget: int) -> Images:
    """Return what APGD finds by bisection of the logarithm of the radius, image by image.

    8 radii, or 10 of a larger budget, which they share evenly. The upper end is the size of what was found.
    """
    kind: Callable[[float], Ball] = {"linf": Linf, "l2": L2}[norm]
    probes = 8 if budget <= 200 else 10
    attack = Apgd(max(1, int(budget / probes - 0.5)))
    images = []
    for row in range(len(problem.x)):
        x, rows, rng = problem.x[[row]], problem.rows[[row]], problem.shard.rng.at([str(row)])
        largest = float(BALLS[norm].size(torch.ones_like(x)))
        low, high, radius, best = 0.0, None, FIRST[norm], x
        for probe in range(probes):
            attacked = attack(problem.goal(rows), x, kind(radius), rng.child("bisection", probe))
            if float(attacked.values[-1]) > CLEARLY:
                best = attacked.images[attack.steps]
                high = float(BALLS[norm].size(best - x))
            else:
                low = radius
            if high is None:
                radius = min(3 * radius, largest)
                continue
            radius = (low * high) ** 0.5 if low else high / 3
        images.append(best)
    return torch.cat(images)


def of_foolbox(name: str, from_rival: bool = False) -> Search:
    """Return an attack of foolbox with its defaults, all images in one batch; a step is a pass.

    Args:
        name: its class.
        from_rival: give the image with the nearest representation as its starting point.

    Raises:
        ImportError: when called, where foolbox is not installed.
    """

    def search(problem: Problem, norm: str, budget: int) -> Images:
        import foolbox

        return _run(getattr(foolbox.attacks, name), problem, budget, from_rival)

    return search


def repaired_fmn(from_rival: bool = False) -> Search:
    """Return foolbox's L2FMNAttack, made to project: its own projection divides a norm by itself.

    Args:
        from_rival: see `of_foolbox`.

    Raises:
        ImportError: when called, where foolbox is not installed.
    """

    def search(problem: Problem, norm: str, budget: int) -> Images:
        from eagerpy.astensor import astensor
        from eagerpy.tensor.tensor import Tensor as AnyTensor
        from foolbox.attacks.fast_minimum_norm import L2FMNAttack

        class Projecting(L2FMNAttack):
            def project(self, x: AnyTensor, x0: AnyTensor, epsilon: AnyTensor) -> AnyTensor:
                delta = (x - x0).raw
                shrink = (epsilon.raw / delta.flatten(1).norm(dim=1).clamp_min(1e-12)).clamp(max=1)
                return x0 + astensor(delta * shrink.to(delta)[:, None, None, None])

        return _run(Projecting, problem, budget, from_rival)

    return search


def _run(kind: Callable[..., Any], problem: Problem, budget: int, from_rival: bool) -> Images:
    from eagerpy.astensor import astensor

    attack = kind(steps=max(1, budget - LOOKS) if from_rival else budget)
    start = {"starting_points": astensor(problem.nearest)} if from_rival else {}
    return attack.run(*_foolbox_problem(problem, problem.rows), **start)


def brendel_bethge(problem: Problem, norm: str, budget: int) -> Images:
    """Return what foolbox's Brendel & Bethge attack finds from the image with the nearest representation.

    Image by image: its trust region grows with the number of images of a batch.

    Raises:
        ImportError: foolbox or numba is not installed.
    """
    from foolbox.attacks.brendel_bethge import L2BrendelBethgeAttack, LinfinityBrendelBethgeAttack

    kind = {"linf": LinfinityBrendelBethgeAttack, "l2": L2BrendelBethgeAttack}[norm]
    attack = kind(steps=max(1, budget - LOOKS))
    images = []
    for rows in problem.rows.split(1):
        images.append(attack.run(*_foolbox_problem(problem, rows), starting_points=problem.nearest[rows]))
    return torch.cat(images)


def _foolbox_problem(problem: Problem, rows: Tensor) -> tuple[Any, Images, Any]:
    """Return foolbox's model, the images and its criterion."""
    from foolbox.criteria import Misclassification
    from foolbox.models.pytorch import PyTorchModel

    model = PyTorchModel(problem.classifier(rows), bounds=(0, 1), device="cpu")
    return model, problem.x[rows], Misclassification(torch.zeros_like(rows))


SEARCHES: dict[str, tuple[Search, tuple[str, ...]]] = {
    "Holdfast": (holdfast, ("linf", "l2")),
    "single descent": (single, ("linf", "l2")),
    "bisection": (bisection, ("linf", "l2")),
    "LInfFMN": (of_foolbox("LInfFMNAttack"), ("linf",)),
    "LInfFMN from rival": (of_foolbox("LInfFMNAttack", from_rival=True), ("linf",)),
    "DDN": (of_foolbox("DDNAttack"), ("l2",)),
    "L2FMN": (of_foolbox("L2FMNAttack"), ("l2",)),
    "L2FMN repaired": (repaired_fmn(), ("l2",)),
    "L2FMN repaired from rival": (repaired_fmn(from_rival=True), ("l2",)),
    "Brendel-Bethge": (brendel_bethge, ("linf", "l2")),
}
"""Name -> the search, and the norms that it knows."""
