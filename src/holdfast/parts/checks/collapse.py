"""Does the encoder tell images apart at all?"""

from dataclasses import dataclass

from holdfast.core import Check, Observation, Subject, Verdict
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class Collapse(Check):
    """Fails where representations are (nearly) constant: such an encoder looks perfectly robust and is useless.

    Attributes:
        warn: share of identical pairs above which the panel warns.
        flat: spread relative to the norm below which representations count as constant.
    """

    warn: float = 0.001
    flat: float = 1e-6

    consequence = "void"
    place = 14

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations."""
        return (Clean(),)

    def judge(self, subject: Subject) -> Verdict:
        """Measure the spread, and the share of pairs with the same representation."""
        clean = subject.read(Clean())["reps"].double()
        spread = float((clean - clean.mean(0)).norm(dim=1).mean())
        scale = float(clean.norm(dim=1).mean())
        copies = clean.unique(dim=0, return_counts=True)[1].double()
        same = float((copies * (copies - 1)).sum() / (len(clean) * (len(clean) - 1)))
        details = {"spread": spread, "norm": scale, "identical pairs": same}
        if spread <= self.flat * scale:
            meaning = "Either all images are the same or the encoder is constant: the numbers are meaningless."
            finding = "all images have the same representation"
            return Verdict("fail", finding, meaning, details, called="Collapsed")
        if same > self.warn:
            meaning = "Duplicate images, or images that look the same to the encoder, distort neighbour measures."
            return Verdict("warn", f"{100 * same:.2f} % of the pairs have identical representations", meaning, details)
        finding = f"spread {spread:.3g} around the mean, {100 * same:.2f} % identical pairs"
        return Verdict("pass", finding, "The encoder distinguishes the images.", details)
