"""Do gradients say what the encoder does to the pixels?"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import (
    Ball,
    Check,
    Encoder,
    Examination,
    Failure,
    Images,
    Observation,
    Passes,
    PerImage,
    Rng,
    Search,
    Subject,
    Verdict,
)
from holdfast.core.threat import image_shape
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.parts.checks.shared.gradients import (
    OF_GRADIENT,
    OF_PROMISE,
    OF_UNSEEN,
    Gradient,
    compare_with_gradient,
    measure_unseen,
    take_gradient,
)
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.threats.linf import Linf

TOGETHER = 8
"""Images that are examined at a time, until what they say is beyond doubt."""

AROUND = Linf(16 / 255)
"""Where the ways that the gradient has not chosen lie: so far that 8 bits inside an encoder are no large part of it."""

LEAST = 4 / 255
"""Change of each pixel below which a step along the gradient says more about 8-bit rounding than about gradients."""


@dataclass(frozen=True)
class GradientHealth(Check):
    """Holds gradients against the encoder itself, at random points of the balls that are searched along them.

    They must be finite and reach the pixels; a step along them, and a move at random, must change the representation by
    what they promise, see `compare_with_gradient`; and pixels that they leave out must not change it, see
    `measure_unseen`. This takes a few passes an image however many pixels it has, and no attack that happens to be
    stronger: it tells false gradients (a backward pass of its own, rounding, a forward pass that differs where
    gradients are taken) and true ones that see next to nothing (saturation, steps, detached parts).

    Attributes:
        balls: what is searched along gradients.
        radii: smallest changes that are sought, whose median size the ball of the same norm has, too.
        examined: images, the first ones, eight at a time until the verdict is clear.
        off: median share by which a step may miss what was promised; half of it warns.
        unseen: mean share of what changes that pixels which the gradient leaves out may make; half of it warns.
    """

    doubt = "pixels without gradient"
    invariant = EVERY

    balls: tuple[Ball, ...] = (Linf(),)
    radii: tuple[BreakingRadii, ...] = ()
    examined: int = 32
    off: float = 0.3
    unseen: float = 0.07

    consequence = "one side"
    lasts = True
    place = 18

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched along gradients."""
        return any(search.attack.passes.backward for search in searches)

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Audits that search."""
        # Where nothing follows gradients, those of the balls that are searched otherwise are examined
        searches = [search for search in audit.searches if search.attack.passes.backward] or list(audit.searches)
        balls = dict.fromkeys(search.ball for search in searches if not search.smallest)
        radii = dict.fromkeys(
            BreakingRadii.of(search, min(TOGETHER, audit.images))
            for search in searches
            if search.smallest and isinstance(search.objective, Failure)
        )
        return (cls(tuple(balls), tuple(radii)),) if balls or radii else ()

    def observations(self) -> tuple[Observation, ...]:
        """The sizes of smallest changes; it makes passes of its own."""
        return self.radii

    def own_passes(self, population: int, attacked: int) -> Passes:
        """Those of the images that are examined at first, which nearly always suffice, for each norm."""
        norms = {ball.of_usual_radius for ball in (*self.balls, *(radii.ball for radii in self.radii))}
        return (OF_GRADIENT + OF_PROMISE * 2 + OF_UNSEEN) * (min(TOGETHER, self.examined, population) * len(norms))

    def judge(self, subject: Subject) -> Verdict:
        """Examine the balls of each norm, and report the norm whose gradients say least."""
        if not subject.encoder.differentiable:
            return OUTSIDE
        verdicts = [self._judge(subject, smallest, largest) for smallest, largest in self._balls(subject)]
        # One norm with false gradients is enough for a failure
        return max(verdicts, key=lambda verdict: ("pass", "warn", "fail").index(verdict.status))

    def _balls(self, subject: Subject) -> Iterator[tuple[Ball, Ball]]:
        """Yield the smallest ball of every norm, but none too small for networks of 8 bits, and the largest."""
        shape = image_shape(subject.batch(0, 1))
        # One entry for each norm: `of_usual_radius` is the same for all its balls
        sizes: dict[Ball, list[float]] = {}
        for ball in self.balls:
            sizes.setdefault(ball.of_usual_radius, []).append(ball.radius)
        for radii in self.radii:
            found = subject.read(radii)["radius"]
            # inf: nothing broke the image; 0: it was broken before
            found = found[found.isfinite() & (found > 0)]
            usual = radii.ball.of_usual_radius
            sizes.setdefault(usual, []).append(float(found.median()) if len(found) else usual.radius)
        for usual, of_norm in sizes.items():
            ball: Any = usual
            least = LEAST * usual.even(shape)
            yield replace(ball, radius=max(least, min(of_norm))), replace(ball, radius=max(of_norm))

    def _judge(self, subject: Subject, smallest: Ball, largest: Ball) -> Verdict:
        encoder, count = subject.encoder, min(self.examined, subject.population)
        missed, unseen = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
        reached, seen = 0.0, 0
        # some images at a time, until both shares are clearly small or clearly not
        for start in range(0, count, TOGETHER):
            x = subject.batch(start, min(start + TOGETHER, count))
            # By the images' ids, so that what one image shows depends on no other
            rng = Rng(subject.seed, ("gradient health",), tuple(subject.ids[start : start + len(x)]))
            # In float32 and by the encoder's own draws: what is compared must differ in the gradient alone
            with encoder.exactly():
                # At random points of the ball, where searches go
                gradient = take_gradient(encoder, smallest.sample(x, rng), rng.child("direction"))
                if gradient is None:
                    return NO_GRADIENT
                if (refused := _find_defect(gradient.values)) is not None:
                    return refused
                missed = torch.cat([missed, self._measure_error(encoder, x, smallest, gradient, rng).cpu()])
                unseen = torch.cat([unseen, measure_unseen(encoder, x, largest, rng.child("left out")).cpu()])
            # A mean over images of the share of pixels whose gradient is not 0
            reached, seen = reached + float((gradient.values != 0).double().mean()) * len(x), seen + len(x)
            if _clear(_drop_nan(missed), self.off) and _clear(_drop_nan(unseen), self.unseen):
                break
        return self._verdict(_drop_nan(missed), _drop_nan(unseen), reached / seen, seen, bool(encoder.straight_through))

    def _measure_error(self, encoder: Encoder, x: Images, ball: Ball, gradient: Gradient, rng: Rng) -> PerImage:
        """Return by how much promises are missed along the gradient, or on a way that it has not chosen."""
        step = ball.step(x, gradient.at, gradient.values, ball.radius / 2)
        along = compare_with_gradient(encoder, gradient.at, step, gradient.direction)
        near, other = (AROUND.sample(x, rng.child(name)) for name in ("near", "other"))
        across = compare_with_gradient(encoder, near, other)
        # NaN where a way changes nothing; the other way counts then
        return torch.fmax(along, across)

    def _verdict(
        self, missed: Float[Tensor, "some"], unseen: Float[Tensor, "others"], reached: float, seen: int, named: bool
    ) -> Verdict:
        off = float(missed.median()) if len(missed) else 0.0
        # An inner product, which chance may take below 0
        share = max(0.0, float(unseen.mean())) if len(unseen) else 0.0
        details = {"reached": reached, "off": off, "unseen": share, "images": float(seen)}
        finding = (
            f"changes differ from what the gradient predicts by {_percent(off)} (median of {seen} images); pixels "
            f"without a gradient make {_percent(share)} of the change"
        )
        if off > self.off and not named:  # a step that is named has no gradient of its own to hold it against
            return Verdict("fail", finding, f"The gradient is not the encoder's own: {MISLED}", details, HIDES)
        if share > self.unseen:
            meaning = f"Pixels change the representation where the gradient sees nothing of it: {MISLED}"
            return Verdict("fail", finding, meaning, details, HIDES)
        if off > self.off / 2 or share > self.unseen / 2:
            meaning = "The encoder is so rough that its gradient says little about it; searches may miss some changes."
            return Verdict("warn", finding, meaning, details)
        if reached < 0.5:
            meaning = "Most pixels do not influence the representation; make sure that this is intended."
            return Verdict("warn", f"only {100 * reached:.0f} % of the pixels have a gradient", meaning, details)
        return Verdict("pass", finding, "The gradient says what the encoder does.", details)


HIDES = "Hides its gradient"
MISLED = (
    "searches that follow it find too little, so robustness is overestimated; if a step such as rounding or JPEG is to "
    "blame, name it: ?straight_through=MODULE."
)
OUTSIDE = Verdict(
    "skip", "not examined: it runs outside torch and has no gradient", "Searches ask it, and follow no gradient."
)
NO_GRADIENT = Verdict(
    "fail",
    "the representation has no gradient with respect to the pixels",
    "The encoder is not differentiable; only gradient-free attacks (square) are meaningful, unless the step that is to "
    "blame is named: ?straight_through=MODULE.",
)


def _find_defect(gradient: Float[Tensor, "batch channel height width"]) -> Verdict | None:
    finite = float(torch.isfinite(gradient).double().mean())
    if finite < 1:
        meaning = "Gradient attacks fail here, so robustness is overestimated."
        return Verdict("fail", f"{100 * (1 - finite):.1f} % of the gradient is NaN or infinite", meaning)
    # One image without a gradient is one that attacks cannot move
    dead = int((gradient.flatten(1).abs().amax(1) == 0).sum())
    if dead:
        meaning = f"Gradient attacks do nothing where the gradient vanishes: {MISLED}"
        return Verdict("fail", f"no gradient at all for {dead} of {len(gradient)} images", meaning, {}, HIDES)
    return None


def _drop_nan(values: Float[Tensor, "images"]) -> Float[Tensor, "known"]:
    """Return the values of the images that anything was seen of."""
    return values[~values.isnan()]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _clear(values: Float[Tensor, "images"], limit: float) -> bool:
    """Return whether the mean is clearly below half of a limit, or clearly above it, by two standard errors."""
    if len(values) < 2:
        return False
    mean, error = float(values.mean()), 2 * float(values.std()) / len(values) ** 0.5
    return mean + error < limit / 2 or mean - error > limit
