"""What is proved and found of one image against others, typed: made by `holdfast certify`."""

from collections.abc import Sequence
from typing import Literal

from holdfast.storage.entry import Count, Entry, Number
from holdfast.storage.record import Software

SCHEMA = 1
"""Version of the answer's layout."""

Verdict = Literal["certified", "undecided", "broken"]
"""What is known at one ε: no image of the ball is taken for the other one, nothing, or one was found that is."""


class Proof(Entry, frozen=True, kw_only=True):
    """What one certifier proves of a pair.

    Attributes:
        certifier: its name.
        radius: the largest ε that it proves, or of the given ones, in pixels; 0: none.
        refused: why it proves nothing of such an encoder; "" where it says something.
        seconds: that it took.
    """

    certifier: str
    radius: Number
    refused: str = ""
    seconds: Number


class Attack(Entry, frozen=True, kw_only=True):
    """What a search found.

    Attributes:
        radius: the smallest change found that makes the image nearer to the other one, in pixels; None: none was found.
        searched: how, in words.
        problem: why nothing could be searched, or why so little; "" else.
    """

    radius: Number | None
    searched: str
    problem: str = ""


class AtEps(Entry, frozen=True, kw_only=True):
    """What is known at one ε.

    Attributes:
        eps: in pixels.
        verdict: see `Verdict`.
        by: the certifiers that prove it.
    """

    eps: Number
    verdict: Verdict
    by: list[str]


class Smoothing(Entry, frozen=True, kw_only=True):
    """What draws of noise say of the smoothed encoder, see `smoothed_radius`.

    Attributes:
        sigma: σ of the noise, in pixels.
        confidence: with which the radius holds.
        draws: how many were drawn.
        probability: the plain mean of the chance that a draw is nearer to the image than to the other one.
        radius: in ℓ2, in pixels; 0: it abstains.
        problem: why nothing could be drawn; "" else.
    """

    sigma: Number
    confidence: Number
    draws: Count = 0
    probability: Number | None = None
    radius: Number = 0.0
    problem: str = ""


class Against(Entry, frozen=True, kw_only=True):
    """One image against one other.

    Attributes:
        name: of the other image.
        divergence: of the two representations, before anything is changed.
        proofs: what each certifier proves.
        attack: what the search found.
        verdicts: at each ε that was given.
        smoothing: what draws say; None: nothing was drawn.
    """

    name: str
    divergence: Number
    proofs: list[Proof]
    attack: Attack
    verdicts: list[AtEps]
    smoothing: Smoothing | None

    @property
    def low(self) -> float:
        """The largest ε that any certifier proves; 0: none."""
        return max((float(proof.radius) for proof in self.proofs), default=0.0)

    @property
    def high(self) -> float | None:
        """The smallest ε at which an image was found that is nearer to the other one; None: none was."""
        found = [float(at.eps) for at in self.verdicts if at.verdict == "broken"]
        found += [] if self.attack.radius is None else [float(self.attack.radius)]
        return min(found, default=None)


class CertifiedPair(Entry, frozen=True, kw_only=True):
    """One image against one or several others: within which ε no change makes it nearer to one of them than to itself.

    Attributes:
        schema: see `SCHEMA`.
        holdfast: what computed it.
        encoder: its name.
        fingerprint: of its weights.
        image: the name of the image.
        shape: channels, height and width that the encoder sees.
        ball: the norm of ε.
        box: whether the norm bounds each pixel, so that sizes are told in grey levels.
        divergence: what "nearer" means.
        against: each of the others, as they were given.
        seed: of everything random.
        seconds: that all of it took.
        key: of what decides the answer: equal ones are about the same.
    """

    schema: int = SCHEMA
    holdfast: Software
    encoder: str
    fingerprint: str
    image: str
    shape: list[Count]
    ball: str
    box: bool
    divergence: str
    against: list[Against]
    seed: int
    seconds: Number
    key: str = ""

    @property
    def tightest(self) -> Against:
        """The other image that is certified least far, or of several such the one that was found broken nearest."""
        return min(self.against, key=lambda one: (one.low, float("inf") if one.high is None else one.high))

    @property
    def low(self) -> float:
        """Within this ε no change makes the image nearer to any of the others; 0: nothing is proved."""
        return min(one.low for one in self.against)

    @property
    def high(self) -> float | None:
        """The smallest ε at which an image was found that is nearer to one of the others; None: none was."""
        return min((one.high for one in self.against if one.high is not None), default=None)

    @property
    def verdicts(self) -> dict[float, Verdict]:
        """What is known at each ε that was given, against all of the others together."""
        return {
            float(each[0].eps): _together([at.verdict for at in each])
            for each in zip(*(one.verdicts for one in self.against), strict=True)
        }


class FailedPair(Entry, frozen=True, kw_only=True):
    """A pair of a list that could not be judged.

    Attributes:
        image: the name of the image.
        against: of the others.
        error: why not.
        error_code: the kind of that error.
    """

    image: str
    against: list[str]
    error: str
    error_code: str


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return what is known against all others: one that breaks it is enough, and each must be certified."""
    if "broken" in verdicts:
        return "broken"
    return "certified" if all(verdict == "certified" for verdict in verdicts) else "undecided"
