"""Does the encoder use the directions of its space?"""

from dataclasses import dataclass

from holdfast.core import Check, Observation, Subject, Verdict
from holdfast.numerics.geometry import spectrum
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class DimensionCollapse(Check):
    """Warns where many directions of the representation carry next to nothing: dimensional collapse.

    A direction counts as unused where its singular value is at most `small` of the largest. N images span at most N - 1
    directions, so no more than these are expected.

    Attributes:
        small: share of the largest singular value.
        warn: share of unused directions above which the panel warns.
    """

    doubt = "few dimensions in use"
    invariant = EVERY

    small: float = 0.001
    warn: float = 0.5

    place = 15

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations."""
        return (Clean(),)

    def judge(self, subject: Subject) -> Verdict:
        """Count unused directions."""
        reps = Clean.of(subject)
        values = spectrum.spectrum(reps)
        # The mean is taken away, which costs N images one direction
        possible = min(reps.shape[1], len(reps) - 1)
        # Relative to the largest one, so that the scale of the representation does not matter
        used = int((values > self.small * values[0]).sum())
        rank = float(spectrum.effective_rank(reps).mean())
        details = {"directions in use": float(used), "possible": float(possible), "effective rank": rank}
        finding = f"{used:,} of {possible:,} directions in use, effective rank {rank:.3g}"
        if possible - used > self.warn * possible:
            meaning = (
                "Dimensional collapse: images differ in few directions. Distances depend on these alone, and a probe "
                "has little else to learn from."
            )
            return Verdict("warn", finding, meaning, details)
        return Verdict("pass", finding, "The representation uses most of its space.", details)
