"""Does the encoder tell images apart at all?"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Check, Observation, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.geometry.spread import nearest_apart, number_format, rounding, spread
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class Collapse(Check):
    """Fails where representations are (nearly) constant: such an encoder looks perfectly robust and is useless.

    Fails as well where the precision of the numbers no longer tells images apart: where the nearest other image is
    hardly farther away than rounding puts representations, see `numerics.geometry.spread`.

    Attributes:
        warn: share of identical pairs above which the panel warns.
        apart: how many times as far as rounding puts images apart the nearest one must be, in the median: at 3 to 8
            times numbers were off by 4 to 15 %, from 16 times on by less than 1 %.
        level: share of the images whose nearest one may be level with them, without being identical.
    """

    doubt = "nearly one representation for all images"
    invariant = EVERY

    warn: float = 0.001
    apart: float = 16.0
    level: float = 0.05

    consequence = "void"
    place = 14

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations."""
        return (Clean(),)

    def judge(self, subject: Subject) -> Verdict:
        """Measure the spread, what rounding makes of it, and the share of pairs with the same representation."""
        return self.of(Clean.of(subject))

    def of(self, reps: Float[Tensor, "images dim"]) -> Verdict:
        """Return the verdict on clean representations of the population."""
        clean, around = reps.double(), spread(reps)
        # c images that are equal make c (c - 1) ordered pairs: counted by groups, without all N² distances
        copies = clean.unique(dim=0, return_counts=True)[1].double()
        same = float((copies * (copies - 1)).sum() / (len(clean) * (len(clean) - 1)))
        # By how much two passes may put an image apart from itself, what the numbers alone cannot
        # hold, and how far the first images are from the nearest other one
        made, held, nearest = rounding(reps), float(rounding(reps, computed=0).median()), nearest_apart(reps)
        details = {"spread": around, "rounding": held, "identical pairs": same}
        # Images lie no farther apart than an image from itself
        if around <= float(made.median()):
            meaning = (
                "Either all images are the same or the encoder is constant, to the precision of its numbers: all that "
                "is computed from them is meaningless."
            )
            # To the bit, or only as far as the numbers can tell
            to = f", to the precision of {number_format(reps)}" if bool((reps != reps[0]).any()) else ""
            finding = f"all images have the same representation{to}"
            return Verdict("fail", finding, meaning, details, called="Collapsed")
        details |= {"nearest": float(nearest.median())}
        # Which neighbour is nearest is a matter of rounding for these images
        level = float((nearest <= made[: len(nearest)]).double().mean())
        # The median tells of a whole space that is too coarse, the share of a part of the images
        if details["nearest"] <= self.apart * held or level > self.level:
            finding = (
                f"precision: {number_format(reps)} puts representations {held:.2g} apart by rounding, passes up to "
                f"{float(made.median()):.2g}, and the nearest image is {details['nearest']:.2g} away (median)"
            )
            meaning = (
                "The precision no longer tells images apart: take a large offset or factor away in the encoder "
                "(subtract the mean), or compute in more digits."
            )
            return Verdict("fail", finding, meaning, details)
        if same > self.warn:
            meaning = "Duplicate images, or images that look the same to the encoder, distort neighbour measures."
            return Verdict("warn", f"{100 * same:.2f} % of the pairs have identical representations", meaning, details)
        finding = f"spread {around:.3g} around the mean, {100 * same:.2f} % identical pairs"
        return Verdict("pass", finding, "The encoder distinguishes the images.", details)
