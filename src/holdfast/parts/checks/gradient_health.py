"""Do gradients reach the pixels?"""

from collections.abc import Collection
from dataclasses import dataclass

import torch

from holdfast.core import Check, Examination, Observation, Rng, Search, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class GradientHealth(Check):
    """Probes the gradient of random projections of f at random points near the images.

    A projection is used because sums of normalised outputs have no gradient, and random points because the drift
    itself has none at the image.

    Attributes:
        examined: images that are probed.
        radius: half the side of the cube around an image from which the points are drawn, in pixels.
    """

    invariant = EVERY

    examined: int = 8
    radius: float = 0.03

    consequence = "one side"
    lasts = True
    place = 18

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched along gradients."""
        return any(search.attack.passes.backward for search in searches)

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Audits that search."""
        return (cls(),) if audit.searches else ()

    def observations(self) -> tuple[Observation, ...]:
        """None: it makes a pass of its own."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Take the gradient of a random projection."""
        # ∇_x ⟨v, f(x)⟩ for a random direction v, at random points near the images
        count = min(self.examined, subject.population)
        x = subject.batch(0, count)
        rng = Rng(subject.seed, ("gradient health",), tuple(str(i) for i in range(count)))
        points = (x + (2 * rng.uniform(*x.shape[1:]).to(x) - 1) * self.radius).clamp(0, 1).requires_grad_()
        reps = subject.encoder(points)
        if not reps.requires_grad:
            meaning = (
                "The encoder is not differentiable; only gradient-free attacks (square) are meaningful, unless the "
                "step that is to blame is named: ?straight_through=MODULE."
            )
            return Verdict("fail", "the representation has no gradient with respect to the pixels", meaning)
        direction = rng.child("direction").normal(reps.shape[1]).to(reps)
        (gradient,) = torch.autograd.grad((reps * direction).sum(), points)
        # is it finite, does it vanish on whole images, how many pixels does it reach?
        finite = float(torch.isfinite(gradient).float().mean())
        reached = float((gradient != 0).float().mean())
        details = {"finite": finite, "nonzero": reached}
        if finite < 1:
            meaning = "Gradient attacks fail here, so robustness is overestimated."
            return Verdict("fail", f"{100 * (1 - finite):.1f} % of the gradient is NaN or infinite", meaning, details)
        dead = int((gradient.flatten(1).abs().amax(1) == 0).sum())
        if dead:
            meaning = (
                "Gradient attacks do nothing where the gradient vanishes, so robustness is overestimated; if a step "
                "such as rounding or JPEG is the cause, name it: ?straight_through=MODULE."
            )
            finding = f"no gradient at all for {dead} of {count} images"
            return Verdict("fail", finding, meaning, details, called="Hides its gradient")
        if reached < 0.5:
            meaning = "Most pixels do not influence the representation; make sure that this is intended."
            return Verdict("warn", f"only {100 * reached:.0f} % of the pixels have a gradient", meaning, details)
        return Verdict(
            "pass",
            f"finite everywhere, nonzero at {100 * reached:.0f} % of the pixels",
            "The gradient reaches the pixels.",
            details,
        )
