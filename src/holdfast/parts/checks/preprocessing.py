"""Is it known how the encoder's inputs were normalised when it was trained?"""

from dataclasses import dataclass

from holdfast.core import Check, Examination, Observation, Subject, Verdict
from holdfast.core.geometry import ASSUMED, BY_CALLER
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class Preprocessing(Check):
    """Reads where mean and std come from; a wrong normalisation audits another encoder than the one in use.

    What the caller says in so many words is an answer; it warns where that cannot be of pixels in [0, 1].
    """

    doubt = "normalisation may be wrong"
    invariant = EVERY

    place = 11

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every audit, also one that reads no images."""
        return (cls(),)

    def observations(self) -> tuple[Observation, ...]:
        """None: it reads facts only."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Look for the source of mean and std."""
        encoder = subject.encoder
        source = str(encoder.origin.get("normalisation", BY_CALLER))
        values = f"mean {_list(encoder.mean)}, std {_list(encoder.std)}"
        if source.startswith(ASSUMED):
            meaning = (
                "The weights file does not say with which mean and std it was trained, so those of the published "
                "weights are used. If it was trained with others, these numbers are of another encoder than yours. Look"
                " it up, and add mean=…&std=… to the encoder's name, even if they are the same: then nothing warns."
            )
            return Verdict("warn", f"{values}, {source}", meaning)
        if source != BY_CALLER:
            return Verdict("pass", f"{values}, from {source}", "Images are normalised as the encoder's source says.")
        # who gives them answers the question, unless they are of other pixels than those of [0, 1] images
        if any(not 0 <= mean <= 1 for mean in encoder.mean) or any(std > 1 for std in encoder.std):
            meaning = "They do not fit pixels in [0, 1], and nobody but the caller says them: divide 0-255 ones by 255."
            return Verdict("warn", f"{values}, {source} without a source", meaning)
        return Verdict(
            "pass", f"{values}, {source}", "Images are normalised as the caller says; training should agree."
        )


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
