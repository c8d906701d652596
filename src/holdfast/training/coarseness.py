"""Whether the attack of a training still finds what a finer one finds, and what is done where it does not."""

import math
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core import Ball
from holdfast.storage.coarseness import Comparison
from holdfast.training.adversary import Adversary

COARSE, GROWN = 1.5, 1.3
"""An attack is too coarse where a finer one finds `COARSE` times as much twice in a row, or once where this is `GROWN`
times the least that there was. Once alone is no reason to change anything: before training, three large steps find half
of what many small ones do on some networks."""

USELESS = 3.0
"""How many times as much a finer attack finds where an attack was too coarse from the beginning."""

MENDS = 3
"""How often an attack is made finer: by then it has eight times the steps."""

SLOWER = 0.5
"""What the rate is multiplied by whenever the attack is made finer."""

IMAGES = 32
"""How many images both attacks are tried on."""


def judge(ratio: float, step: int, before: Sequence[float], adversary: Adversary, mends: int) -> Comparison:
    """Return what a comparison says.

    Args:
        ratio: see `Adversary.measure_coarseness`.
        step: of the training.
        before: what the ratio was at earlier steps.
        adversary: of the training.
        mends: how often its attack has been made finer.
    """
    # With nothing before it, a ratio above COARSE may be that of a network that has just begun to learn
    lasts = bool(before) and (before[-1] > COARSE or ratio > GROWN * min(before))
    coarse = ratio > USELESS or (ratio > COARSE and lasts)
    # JSON has no infinity
    told = ratio if math.isfinite(ratio) else None
    return Comparison(step=step, ratio=told, coarse=coarse, mended=coarse and adversary.mend and mends < MENDS)


def refine(adversary: Adversary, times: int) -> Adversary:
    """Return the adversary with its attack made finer so many times."""
    for _ in range(times):
        assert isinstance(adversary.threat, Ball)
        adversary = replace(adversary, attack=adversary.attack.refine(adversary.threat))
    return adversary


def explain(comparisons: Sequence[Comparison]) -> list[str]:
    """Return that the attack of a training was too coarse, and what was done about it; nothing where it was not."""
    found = [one for one in comparisons if one.coarse]
    if not found:
        return []
    # what was seen first, and what was done about it from there on
    first = found[0]
    times = "infinitely many times" if first.ratio is None else f"{first.ratio:.1f} times"
    mended = [str(one.step) for one in found if one.mended]
    then = (
        f"it went on with twice as many, finer steps, and half the rate, from step {', '.join(mended)}"
        if mended
        else "give it more steps"
    )
    if mended and not found[-1].mended:
        then += f"; at step {found[-1].step} that was still too coarse: give it more steps, or a lower rate"
    return [
        f"the attack of the training was too coarse: at step {first.step} a finer one found {times} as much, so the "
        f"network may have learned to beat the attack instead of the ball; {then}"
    ]
