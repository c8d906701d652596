"""Do the pixels look like pixels of a [0, 1] image?"""

from dataclasses import dataclass

from holdfast.core import Check, Observation, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class InputRange(Check):
    """Warns when the images use almost none of [0, 1]: ε then means something else than it seems.

    Attributes:
        examined: images that are read.
    """

    doubt = "an unusual range of pixels"
    invariant = EVERY

    examined: int = 64

    consequence = "void"
    place = 10

    def observations(self) -> tuple[Observation, ...]:
        """None: it reads images only."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Look at the smallest and the largest pixel."""
        x = subject.batch(0, min(self.examined, subject.population))
        low, high = float(x.min()), float(x.max())
        details = {"min": low, "max": high, "mean": float(x.mean())}
        finding = f"pixels span {low:.3f} to {high:.3f}"
        doubt = f"{self.doubt} ({low:.3f} to {high:.3f})"
        # White that was divided by 255 twice is 1/255
        if high <= 4 / 255:
            meaning = "The images are almost black: were pixels already in [0, 1] divided by 255 again?"
            return Verdict("fail", f"the largest pixel is {high:.4f}", meaning, details, doubt=doubt)
        if high - low < 0.25:
            meaning = "The images use little of the range, so ε is larger for them than it seems."
            if low == 0:
                meaning += f" Where the largest, {255 * high:.3g} of 255, is white, divide by it and not by 255."
            return Verdict("warn", finding, meaning, details, doubt=doubt)
        return Verdict("pass", finding, "ε is in pixels of a [0, 1] image.", details)
