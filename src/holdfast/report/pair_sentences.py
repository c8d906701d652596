"""One image against others in sentences, the same in a terminal and on a page; a proof is rounded down."""

import math
from collections.abc import Callable, Iterator

from holdfast.report.numbers import listing
from holdfast.runtime.digits import number
from holdfast.storage.certified_pair import Against, CertifiedPair, Smoothing

NORMS = {"linf": "ℓ∞", "l2": "ℓ2"}
"""Norms as people write them."""

COLOURS = {"certified": "green", "undecided": "yellow", "broken": "red"}
"""Of verdicts."""


def format_proof(size: float, box: bool) -> str:
    """Return a proved size in words, which never says more than is proved.

    Example:
        >>> format_proof(2.2069 / 255, True), format_proof(0.23248, False)
        ('2.2/255', '0.232')
    """
    return _round(size, box, math.floor)


def format_change(size: float | None, box: bool) -> str:
    """Return the size of a change that was found, which is never larger than is said; "nothing found" where none was.

    Example:
        >>> format_change(13.0231 / 255, True)
        '13.1/255'
    """
    return "nothing found" if size is None else _round(size, box, math.ceil)


def format_eps(size: float, box: bool) -> str:
    """Return an ε as somebody gave it."""
    return f"{255 * size:.4g}/255" if box else f"{size:.4g}"


def headline(answer: CertifiedPair) -> str:
    """Return the answer in a sentence."""
    one = answer.tightest
    nearer = f"makes {answer.image} nearer to {one.name} than to itself"
    # Where ε were given, what is known at each
    if answer.verdicts:
        each = [f"{verdict} at {format_eps(eps, answer.box)}" for eps, verdict in answer.verdicts.items()]
        others = one.name if len(answer.against) == 1 else f"{len(answer.against)} others"
        return f"{answer.image} against {others}: {listing(each, 9)}."
    broken = "" if answer.high is None else f"a change of {format_change(answer.high, answer.box)}"
    if not answer.low:
        nearer = f"makes {answer.image} nearer to {nearest(answer).name} than to itself"
        return (
            f"Nothing is proved; {broken} {nearer}."
            if broken
            else f"Nothing is proved or found of {answer.image} against {one.name}."
        )
    start = f"No change of up to {format_proof(answer.low, answer.box)} {nearer}"
    if not broken:
        return f"{start}; nothing was found that does."
    # Another one may be proved farther and be reached sooner
    return f"{start}; {broken} does{'' if nearest(answer) is one else f', towards {nearest(answer).name}'}."


def nearest(answer: CertifiedPair) -> Against:
    """Return the other image towards which the smallest change was found."""
    return min(answer.against, key=lambda each: (math.inf if each.high is None else each.high, each.low))


def sentences(answer: CertifiedPair) -> list[str]:
    """Return the answer, and what somebody must know who relies on it."""
    return [headline(answer), *_rest(answer)]


def _rest(answer: CertifiedPair) -> Iterator[str]:
    box, one = answer.box, answer.tightest
    # Which of several decides
    if len(answer.against) > 1:
        yield f"Of {len(answer.against)} others {one.name} is the tightest: it is certified least far."
    # How near to the truth both ends are
    if answer.verdicts and answer.high is not None:
        size = format_change(answer.high, box)
        yield f"The smallest change found that breaks it, towards {nearest(answer).name}, is {size}."
    elif answer.low and answer.high is not None:
        yield "Between the two nothing is known: a stronger certifier or a stronger attack may narrow it."
    # The other encoder, which draws speak of
    for each in answer.against:
        if each.smoothing is not None:
            whose = "" if len(answer.against) == 1 else f"Against {each.name}: "
            yield whose + describe_smoothing(each.smoothing)
    if len(answer.against) > 1 and one.smoothing is not None:
        chance = len(answer.against) * (1 - float(one.smoothing.confidence))
        yield f"Each of these holds at its own confidence, all of them together at {100 * (1 - chance):.6g} % or more."
    # A certifier refuses an encoder, whatever the pair is
    yield from dict.fromkeys(
        f"{proof.certifier} proves nothing: {proof.refused.removeprefix('not certified: ').rstrip('.')}."
        for each in answer.against
        for proof in each.proofs
        if proof.refused
    )
    yield from dict.fromkeys(
        f"The search for the smallest change went {each.attack.searched}: {each.attack.problem.rstrip('.')}."
        for each in answer.against
        if each.attack.problem
    )


def describe_smoothing(smoothing: Smoothing) -> str:
    """Return what is known of the smoothed encoder."""
    about = f"the encoder smoothed with noise of σ {smoothing.sigma:g}"
    if smoothing.problem:
        return f"Nothing is known of {about}: {smoothing.problem}"
    chance = f"{smoothing.draws:,} draws, mean probability {number(smoothing.probability, 'share')}"
    if not smoothing.radius:
        return f"Abstains about {about}: the probability is not shown to be above ½ ({chance})."
    sure, radius = f"{100 * smoothing.confidence:.6g} %", format_proof(smoothing.radius, False)
    return f"Certified for {about}, not for the encoder itself: {radius} in ℓ2, at a confidence of {sure} ({chance})."


def cells(one: Against, box: bool) -> list[str]:
    """Return the numbers of one other image: the verdicts, or what each certifier proves; and what was found."""
    proofs = ["refused" if proof.refused else format_proof(proof.radius, box) for proof in one.proofs]
    return [
        number(one.divergence),
        *([at.verdict for at in one.verdicts] or proofs),
        format_change(None if one.attack.radius is None else float(one.attack.radius), box),
        *([] if one.smoothing is None else [_radius(one.smoothing)]),
    ]


def head(answer: CertifiedPair) -> list[str]:
    """Return what the numbers of `cells` are."""
    one = answer.against[0]
    return [
        answer.divergence,
        *([f"at {format_eps(at.eps, answer.box)}" for at in one.verdicts] or [proof.certifier for proof in one.proofs]),
        "broken at",
        *([] if one.smoothing is None else ["smoothed, ℓ2"]),
    ]


def _radius(smoothing: Smoothing) -> str:
    if smoothing.problem:
        return "none"
    return format_proof(smoothing.radius, False) if smoothing.radius else "abstains"


def _round(size: float, box: bool, towards: Callable[[float], int]) -> str:
    """Return three figures of a size, rounded one way."""
    # Three figures say more than anybody can see, and no proof is rounded beyond itself
    size = 255 * size if box else size
    if size <= 0:
        return "0/255" if box else "0"
    step = 10.0 ** (math.floor(math.log10(size)) - 2)
    steps = size / step
    # What is whole but for the last digits of float64 stays as it is
    rounded = round(steps) if math.isclose(steps, round(steps), rel_tol=1e-12) else towards(steps)
    return f"{rounded * step:.10g}{'/255' if box else ''}"
