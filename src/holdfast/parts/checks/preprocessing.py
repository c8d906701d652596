"""Is it known how the encoder's inputs were normalised when it was trained?"""

from dataclasses import dataclass

from holdfast.core import Check, Examination, Observation, Subject, Verdict
from holdfast.core.geometry import ASSUMED, BY_CALLER
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class Preprocessing(Check):
    """Reads where mean and std come from; a wrong normalisation audits another encoder than the one in use."""

    doubt = "normalisation without a source"
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
        if source == BY_CALLER:
            meaning = "The normalisation comes from the caller; make sure it is the one used in training."
            return Verdict("warn", f"{values}, {source} without a source", meaning)
        if source.startswith(ASSUMED):
            meaning = (
                "The weights are a file of one's own, which may have been trained with another normalisation than the "
                "published ones of its network; state the one it was trained with: mean=…&std=… in the spec."
            )
            return Verdict("warn", f"{values}, {source}", meaning)
        return Verdict("pass", f"{values}, from {source}", "Images are normalised as the encoder's source says.")


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
