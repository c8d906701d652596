"""Is an image's representation its own, or does it depend on the other images of the batch?"""

from dataclasses import dataclass

import torch

from holdfast.core import Check, Examination, Observation, Passes, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.geometry.spread import rounding, spread
from holdfast.parts.observations.clean import Clean
from holdfast.runtime.errors import first_line


@dataclass(frozen=True)
class BatchIndependence(Check):
    """Compares images represented one by one with the same images in a batch, on the scale of clean distances.

    Attributes:
        examined: images that are compared.
        warn: relative difference above which rounding is large.
        fail: relative difference above which the images influence each other.
    """

    doubt = "answers depend on the batch"
    invariant = EVERY

    examined: int = 8
    warn: float = 1e-4
    fail: float = 1e-2

    consequence = "void"
    lasts = True
    place = 13

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every audit, also one that reads no images."""
        return (cls(),)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations."""
        return (Clean(),)

    def own_passes(self, population: int, attacked: int) -> Passes:
        """Each image together with others, and alone."""
        return Passes(2) * min(self.examined, population)

    def judge(self, subject: Subject) -> Verdict:
        """Represent a few images alone and together."""
        count = min(self.examined, subject.population)
        x = subject.batch(0, count)
        with torch.no_grad():
            together = subject.encoder(x)
            try:
                # The same images as batches of one
                alone = torch.cat([subject.encoder(x[i : i + 1]) for i in range(count)])
            except Exception as error:  # BatchNorm in train mode refuses a single image
                finding = f"a single image cannot be encoded: {first_line(error)}"
                return Verdict("fail", finding, "It needs batches of several images (BatchNorm in train mode?).")
        clean = Clean.of(subject)
        # identical images have no spread, and of a large offset the last digit may be a part of it
        last = rounding(clean)[:count]
        # How far each image moved, and the worst of them in units of the spread
        moved = (together - alone).double().norm(dim=1).cpu()
        drift = float(moved.max()) / max(spread(clean), float(last.max()), 1e-30)
        details = {"relative difference": drift}
        if not (drift <= self.fail or bool((moved <= last).all())):  # NaN too
            meaning = "Images in a batch influence each other (BatchNorm in train mode?); no number here is reliable."
            return Verdict("fail", f"alone and in a batch differ by {drift:.1e} of the spread", meaning, details)
        if drift > self.warn:
            meaning = "Rounding depends on the batch size; do not rely on small differences."
            return Verdict("warn", f"alone and in a batch differ by {drift:.1e} of the spread", meaning, details)
        meaning = "The batch size does not change the result."
        return Verdict("pass", f"alone and in a batch differ by {drift:.1e} of the spread", meaning, details)
