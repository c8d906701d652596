"""Petrov & Kwiatkowska (2022), "Robustness of Unsupervised Representation Learning without Labels"."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.same import inputs
from benchmarks.same.by_hand import unsupervised as by_hand
from benchmarks.same.comparison import ByHand, Comparison, Published
from benchmarks.same.observed import Observed, attacked, concluded, encoder, told
from holdfast.core import Rng
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.divergences.kl import Kl
from holdfast.parts.divergences.wasserstein import Wasserstein
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.cosine_to_target import CosineToTarget
from holdfast.parts.measures.drift.relative_quantile import RelativeQuantile
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.adversarial_margin import AdversarialMargin
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.measures.smoothed.smoothed_probe_accuracy import SmoothedProbeAccuracy
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.smoothing.center import Center
from holdfast.parts.threats.lowpass import Lowpass

PAPER = "Unsupervised robustness"

REPOSITORY = "unsupervised-robustness"
READOUTS = (5, 10, 30, 50)


def attack(towards: bool) -> Tensor:
    """Return what U-PGD of ten steps makes of eight images."""
    network, x = encoder(), inputs.images(8)
    goal = (Targeted() if towards else Untargeted()).pursue(network, network(x), network(inputs.images(8, seed=5)))
    return attacked(Pgd(10, inputs.STEP, keep="last"), goal, x)[10]


@cache
def run(towards: bool) -> Observed:
    """Return sixty images (towards: pairs of the first forty, from the images themselves) attacked by U-PGD."""
    network, x = encoder(), inputs.images(60)
    clean = network(x).detach()
    some = x[:40] if towards else x
    partner = clean[torch.arange(40) ^ 1] if towards else None
    goal = (Targeted() if towards else Untargeted()).pursue(network, clean[: len(some)], partner)
    found = attacked(Pgd(50, inputs.STEP, keep="last"), goal, some, share=0.0 if towards else 1.0)
    return told(clean, {step: network(images).detach() for step, images in found.items()})


ATTACK = Pgd(50, inputs.STEP, keep="last")


def column(measure: AttackMeasure, name: str, towards: bool = True) -> list[float]:
    """Return the median of a column at every read-out; of pairs that of one side, all that the authors attack."""
    table = measure.observe(run(towards))
    rows = slice(None, None, 2) if towards else slice(None)
    return [float(np.median(table[f"{name}@{step}"][rows].numpy())) for step in measure.steps]


def scored(measure: AttackMeasure) -> float:
    """Return the headline of a measure of the untargeted attack."""
    return float(list(measure.score(measure.observe(run(False))).values())[-1].value or 0)


def quantiles() -> list[float]:
    """Return the median universal quantile at every read-out."""
    measure = UniversalQuantile(ATTACK, readouts=READOUTS)
    return [float(score.value or 0) for score in measure.score(measure.observe(run(False))).values()]


def average(radius: str) -> list[float]:
    """Return certified accuracies at the authors' radii, or the average radius over what is found."""
    radii = np.round(inputs.uniform(21, 40), 6)
    table = {
        "found": torch.from_numpy((inputs.uniform(21, 40) > 0.2).astype(float)), "radius": torch.from_numpy(radii),
        "abstained": torch.zeros(40, dtype=torch.float64),
    }  # fmt: skip
    scores = SmoothedProbeAccuracy(radii=(0.1, 0.25, 0.75, 0.9)).score(table)
    names = ["found", *(f"within {r:g}" for r in (0.1, 0.25, 0.75, 0.9))] if radius == "share" else [radius]
    return [float(scores[name].value or 0) for name in names]


@cache
def given() -> tuple[np.ndarray, np.ndarray]:
    """Return representations of 40 images, and of the first 24 after an attack."""
    clean = inputs.normal(23, 40, 6)
    return clean, clean[:24] + 1.2 * inputs.normal(24, 24, 6)


def table_of(measure: AttackMeasure, name: str) -> Tensor:
    """Return a column of a measure of these."""
    clean, found = map(torch.from_numpy, given())
    return measure.observe(told(clean, {10: found}))[f"{name}@10"][:24]


TEN = {"attack": Pgd(10), "readouts": (10,)}
CENTER = Center(0.1, 1201, 1201)


def center() -> Tensor:
    """Return ε_out of one image from given draws."""
    noise = inputs.single(inputs.normal(22, 3, 1201, 1, inputs.SIDE, inputs.SIDE))
    x = inputs.images(8)[0]
    return concluded(CENTER, 0.2, *(encoder()(x + 0.2 * block).detach() for block in noise))["radius"]


def center_by_hand() -> float:
    """Return the same by hand."""
    noise = inputs.single(inputs.normal(22, 3, 1201, 1, inputs.SIDE, inputs.SIDE))
    reps = [encoder()(inputs.images(8)[0] + 0.2 * noise[n]).detach().double().numpy() for n in (0, 2)]
    return by_hand.center(*reps, sigma=0.2, radius=0.1, delta=0.05, alpha=0.005)


def table(code: str, name: str, *steps: float, change: Callable[..., Any] = lambda *rows: rows) -> Published:
    """Return what stands in the authors' table of results, of several read-outs."""
    keys = [f"scripts/{name.format(step)}" for step in steps] or [f"scripts/{name}"]
    return Published(REPOSITORY, "|".join(keys), f"`scripts/{code}`", change)


ON = "60 images, random network, U-PGD with the same starts"
PAIRS = "20 pairs, random network, targeted U-PGD from the images themselves"
GIVEN = "24 of 40 images, given representations"

COMPARISONS = (
    Comparison(
        "Section 4: U-PGD", "attack `pgd`, `keep=last`", Published(REPOSITORY, "U-PGD", "`utils/pgd_attack.py`"),
        "8 images after 10 steps, the same starts", 1e-6, lambda: attack(False),
    ),
    Comparison(
        "Section 4: targeted U-PGD", "attack `pgd`, `keep=last`",
        Published(REPOSITORY, "U-PGD towards", "`utils/pgd_attack.py`"), "8 images after 10 steps, the same starts",
        1e-6,
        lambda: attack(True),
    ),
    Comparison(
        "Section 5: universal quantile, median", "`universal_quantile`",
        table("model_eval_results.py", "Untargeted PGD (0.08) {}it l2 U", *READOUTS),
        f"{ON}; they round to the nearest of 1,099 stored quantiles, so by .0005 or more", 5e-3, quantiles,
    ),
    Comparison(
        "Section 5: universal quantile", "`universal_quantile`",
        ByHand(lambda: by_hand.universal(*given()), "all pairs by a loop"), GIVEN, 1e-12,
        lambda: table_of(UniversalQuantile(**TEN), "quantile"),
    ),
    Comparison(
        "Section 5: relative quantile, median", "`relative_quantile`",
        table("model_eval_results.py", "Targeted PGD (0.08) {}it l2 R", *READOUTS),
        f"{PAIRS}; they divide by the distance of the attack's start, which is the image only here", 1e-5,
        lambda: column(RelativeQuantile(ATTACK, readouts=READOUTS), "ratio"),
    ),
    Comparison(
        "Section 5: relative quantile", "`relative_quantile`",
        ByHand(lambda: by_hand.relative(*given()), "a loop over pairs"), GIVEN, 1e-12,
        lambda: table_of(RelativeQuantile(**TEN), "ratio"),
    ),
    Comparison(
        "Section 6: cosine to the image, median", "`cosine_to_self`",
        table("model_eval_results.py", "Untargeted PGD (0.08) {}it cosine_similarity", *READOUTS),
        ON, 1e-5, lambda: column(CosineToSelf(ATTACK, readouts=READOUTS), "similarity", False),
    ),
    Comparison(
        "Section 6: cosine to the target, median", "`cosine_to_target`",
        table("model_eval_results.py", "Targeted PGD (0.08) {}it cosine_similarity", *READOUTS),
        PAIRS, 1e-5, lambda: column(CosineToTarget(ATTACK, readouts=READOUTS), "similarity"),
    ),
    Comparison(
        "Eq. 1: breakaway risk", "`breakaway_risk`",
        table("breakaway.py", "Break away risk (?)", change=lambda risk: risk * 60 / 59),
        f"{ON}; they divide by 60 others, not 59 (turned here), and sum over the last batch, here the only one",
        1e-9, lambda: scored(BreakawayRisk(ATTACK, readouts=(10,))),
    ),
    Comparison(
        "Eq. 1: breakaway risk", "`breakaway_risk`", ByHand(lambda: by_hand.breakaway(*given()), "all pairs by a loop"),
        GIVEN, 1e-12, lambda: float(table_of(BreakawayRisk(**TEN), "broken").mean()),
    ),
    Comparison(
        "Eq. 4: nearest-neighbour accuracy", "`nearest_neighbour_accuracy`, `pursue=drift`",
        table("breakaway.py", "NN Top-1 accuracy (?)"), ON, 1e-9,
        lambda: scored(NearestNeighbourAccuracy(ATTACK, readouts=(10,), pursue="drift")),
    ),
    Comparison(
        "Eq. 4: nearest-neighbour accuracy", "`nearest_neighbour_accuracy`, `pursue=drift`",
        ByHand(lambda: by_hand.nearest_neighbour(*given()), "the least of all distances"), GIVEN, 1e-12,
        lambda: float(table_of(NearestNeighbourAccuracy(**TEN, pursue="drift"), "found").mean()),
    ),
    Comparison(
        "Eq. 2: overlap risk", "`overlap_risk`", table("margin.py", "Overlap risk"),
        f"{PAIRS}, seen from one of the two", 1e-9,
        lambda: float(OverlapRisk(ATTACK, readouts=(10,)).observe(run(True))["overlap@10"][::2].mean()),
    ),
    Comparison(
        "Eq. 2: overlap risk", "`overlap_risk`", ByHand(lambda: by_hand.overlap(*given()), "a loop over pairs"), GIVEN,
        1e-12, lambda: float(table_of(OverlapRisk(**TEN), "overlap").mean()),
    ),
    Comparison(
        "Section 5: adversarial margin, median", "`adversarial_margin`",
        table("margin.py", "Median margin ratio"), f"{PAIRS}, seen from one of the two", 1e-5,
        lambda: column(AdversarialMargin(ATTACK, readouts=(10,)), "margin"),
    ),
    Comparison(
        "Section 5: adversarial margin", "`adversarial_margin`",
        ByHand(lambda: by_hand.margin(*given()), "a loop over pairs"), GIVEN, 1e-12,
        lambda: table_of(AdversarialMargin(**TEN), "margin"),
    ),
    Comparison(
        "C.10: center smoothing", "`center_smoothing`",
        Published(REPOSITORY, "center smoothing", "`utils/center_smoothing.py`"),
        "1 image, 3 x 1,201 given draws; they interpolate the quantile, which Holdfast rounds up", 5e-3,
        lambda: center()[0],
    ),
    Comparison(
        "C.10: center smoothing", "`center_smoothing`", ByHand(center_by_hand, "medians of all distances"),
        "1 image, 3 x 1,201 given draws", 1e-5, lambda: center()[0],
    ),
    Comparison(
        "C.9: certified accuracy", "`smoothed_probe_accuracy`",
        table("model_eval_results.py", "CertAcc @ {:.2f}", 0, 0.1, 0.25, 0.75, 0.9),
        "40 given radii", 1e-12, lambda: average("share"),
    ),
    Comparison(
        "C.9: average certified radius of what is found", "`smoothed_probe_accuracy`",
        table("model_eval_results.py", "Average Certified Radius"), "40 given radii", 1e-12,
        lambda: average("average radius of those found"),
    ),
    Comparison(
        "C.9: average certified radius, the rest as 0", "`smoothed_probe_accuracy`",
        ByHand(
            lambda: [by_hand.average_radius(np.round(inputs.uniform(21, 40), 6), inputs.uniform(21, 40) > 0.2)],
            "a mean"
        ),
        "40 given radii", 1e-12, lambda: average("average radius"),
    ),
    Comparison(
        "A.1: Kullback-Leibler divergence of features", "divergence `kl`",
        ByHand(lambda: by_hand.kullback_leibler(inputs.normal(25, 9, 6), inputs.normal(26, 9, 6)), "SciPy's entropy"),
        "9 pairs", 1e-12, lambda: Kl()(torch.from_numpy(inputs.normal(25, 9, 6)), torch.from_numpy(inputs.normal(26,
        9, 6))),
    ),
    Comparison(
        "A.1: 2-Wasserstein distance", "divergence `wasserstein`",
        ByHand(lambda: by_hand.wasserstein(inputs.normal(25, 9, 6), inputs.normal(26, 9, 6)), "matrix square roots"),
        "9 pairs", 1e-7,
        lambda: Wasserstein()(torch.from_numpy(inputs.normal(25, 9, 6)), torch.from_numpy(inputs.normal(26, 9, 6))),
    ),
    Comparison(
        "C.4: low-pass filter", "corruption `lowpass`",
        ByHand(lambda: by_hand.lowpass(inputs.uniform(27, 3, 1, 16, 16), 4.5), "a mask on NumPy's spectrum"),
        "3 images of 16 x 16", 1e-6,
        lambda: Lowpass(4.5, 16).sample(torch.from_numpy(inputs.uniform(27, 3, 1, 16, 16)), Rng(0, ids=("a", "b",
        "c"))),
    ),
)  # fmt: skip
