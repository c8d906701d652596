"""The learning rate that a network bears: the largest whose first steps do not undo what the network has learned."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from holdfast.core import Encoder, HoldfastError
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe

TINY = 1e-30
"""A loss that is 0 before any step is not divided by."""

RATES = (0.1, 0.03, 0.01, 0.003, 1e-3, 3e-4, 1e-4, 3e-5)
"""What is tried, in units of each tensor's root mean square: what networks bear differs by a factor of a hundred."""

UNTRIED = 0.01
"""What is taken for objectives whose loss does not know the old representations: it cannot say that they are lost."""

STEPS = 4
"""Steps at each rate, all from the same weights, on the same batches and with the same random numbers."""

MOST = 1.5
"""Loss after them, in units of the loss before any step, up to which a rate is borne; all representations in one point
give about 2, for they are then as far from the clean ones as attacked ones were, and so are those of clean images."""


def losses(recipe: Recipe, start: Encoder, images: TrainingImages) -> dict[float, float]:
    """Return what the loss becomes in a few steps at a rate, for every rate that was tried; the last is borne.

    In units of the loss before any step, the mean of the second half of the steps. From the largest rate down, until
    one is borne, or to the smallest. A network without normalisation layers loses everything at a rate that one with
    them needs, and nothing says so before the first step. In a training the rate rises slowly to what is borne at once.
    """
    after: dict[float, float] = {}
    assert recipe.adversary is not None  # every hardening has one
    recipe = replace(recipe, adversary=replace(recipe.adversary, clean=1.0))  # clean images show what is lost
    for rate in RATES:
        optimiser = replace(recipe.optimiser, rate=rate, schedule="constant", warmup=0.0)
        try:
            with TemporaryDirectory() as folder:
                short = replace(recipe, optimiser=optimiser, steps=STEPS)
                rows = train(short, Path(folder), encoder=start, images=images).rows
        except HoldfastError:  # a loss that is not finite
            if rate == RATES[-1]:
                raise
            after[rate] = math.inf
            continue
        after[rate] = mean(row["loss"] for row in rows[STEPS // 2 :]) / max(rows[0]["loss"], TINY)
        if after[rate] <= MOST:
            break
    return after
