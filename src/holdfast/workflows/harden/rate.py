"""The learning rate that suits a network: the one that lowers the loss of its hardening most in a few steps."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.core import Encoder, HoldfastError
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe

RATES = (0.1, 0.03, 0.01, 0.003, 1e-3, 3e-4, 1e-4, 3e-5)
"""What is tried, in units of each tensor's root mean square: what networks bear differs by a factor of a hundred."""

STEPS = 4
"""Steps at each rate, all from the same weights, on the same batches and with the same random numbers."""


def losses(recipe: Recipe, start: Encoder, images: TrainingImages) -> dict[float, float]:
    """Return the loss that a few steps at a rate lead to, the mean of their second half, for every rate that was tried.

    From the largest rate down: once one has lowered the loss, the first that does worse is the last. A network without
    normalisation layers loses everything at a rate that one with them needs, and no loss says so before the first step.

    Args:
        recipe: of the hardening, whatever its rate.
        start: the encoder, which stays as it is.
        images: what it learns from.

    Raises:
        HoldfastError: a training that fails at every rate.
    """
    after: dict[float, float] = {}
    failure = None
    for rate in RATES:
        tried = replace(recipe.optimiser, rate=rate, schedule="constant", warmup=0.0)
        try:
            with TemporaryDirectory() as folder:
                rows = train(
                    replace(recipe, optimiser=tried, steps=STEPS), Path(folder), encoder=start, images=images
                ).rows
        except HoldfastError as error:  # a loss that is not finite
            failure = error
            continue
        best = min(after.values(), default=float("inf"))
        after[rate] = sum(row["loss"] for row in rows[STEPS // 2 :]) / (STEPS - STEPS // 2)
        if best < min(rows[0]["loss"], after[rate]):
            break
    if not after:
        assert failure is not None
        raise failure
    return after
