"""Wang & Liu (2023), "RVCL: Evaluating the Robustness of Contrastive Learning via Verification"."""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from benchmarks.same import inputs
from benchmarks.same.by_hand import rvcl as by_hand
from benchmarks.same.comparison import ByHand, Comparison, Published
from benchmarks.same.observed import Observed, attacked, concluded, draws, encoder, real, told
from benchmarks.same.plain import matrices, pixels, reps_by_hand
from holdfast.core import Batch, EncodedView, Facts, Head, Margin
from holdfast.numerics.statistics.correlations import pearson
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.instance_accuracy import InstanceAccuracy
from holdfast.parts.measures.certified.margin_calibration import beyond
from holdfast.parts.measures.certified.margin_distribution import MarginDistribution
from holdfast.parts.measures.shared.weibull import FITS
from holdfast.parts.methods.simclr import Simclr
from holdfast.parts.objectives.nt_xent import NtXent
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.radii import Radii
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders.shared.copies import trainable

PAPER = "RVCL"

PAIRS = ((0, 1), (0, 2), (1, 2), (3, 0))
"""Which images are compared with which."""

SIZES = (0.01, 0.05, 0.2)
"""Radii at which they are certified."""


def views(count: int) -> Tensor:
    """Return projections of so many views of six images, [count, 6, 7]."""
    return inputs.single(inputs.normal(11, count * 6, 7)).view(count, 6, 7)


def rocl() -> float:
    """Return RoCL's loss of three views."""
    student = Simclr(hidden=4, dim=7).student(trainable(encoder()), Facts(dim=inputs.DIM, images=6, classes=None))
    seen = [EncodedView(None, view, None) for view in views(3)]
    return float(student.mutual(seen, Batch(torch.arange(6), None)))  # type: ignore


def attack(towards: bool) -> Tensor:
    """Return what PGD of 20 steps makes of eight images."""
    network, x = encoder(), inputs.images(8)
    clean, target = network(x), network(inputs.images(8, seed=5))
    goal = (Targeted() if towards else Untargeted()).pursue(network, clean, target)
    return attacked(Pgd(20, inputs.STEP, keep="last"), goal, x)[20]


@cache
def problem() -> tuple[Tensor, Margin]:
    """Return the images of the pairs, and their margins."""
    x = inputs.images(4)
    reps = encoder()(x).double()
    own, others = (list(side) for side in zip(*PAIRS, strict=True))
    return x[own], Cosine().between(reps[own], reps[others][:, None])


def bounds(certifier: Propagation) -> Tensor:
    """Return lower bounds of each pair at every size."""
    x, margin = problem()
    return torch.stack([certifier(encoder(), margin, x, Linf(size)).lower[:, 0] for size in SIZES], 1).flatten()


def rows_by_hand() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the pixels and the margin of each pair."""
    x = pixels(inputs.images(4))
    reps = reps_by_hand(x)
    return [(x[i], by_hand.margins(reps[i], reps[j])) for i, j in PAIRS]


def bounds_by_hand(bound: object) -> list[float]:
    """Return lower bounds of each pair at every size, by the lemma or by intervals."""
    return [bound(matrices(), row[None], *by_hand.box(x, size))[0] for x, row in rows_by_hand() for size in SIZES]  # type: ignore


def exact() -> Tensor:
    """Return the least margin of two pairs, as β-CROWN closes in on it."""
    x, margin = problem()
    return BetaCrown(until="tight", splits=2000)(encoder(), margin.part(slice(2)), x[:2], Linf(SIZES[0])).lower[:, 0]


def exact_by_hand() -> list[float]:
    """Return the same by a mixed-integer program."""
    return [by_hand.minimum(matrices(), row, *by_hand.box(x, SIZES[0])) for x, row in rows_by_hand()[:2]]


def head() -> Head:
    """Return a linear classifier of three classes on the representation."""
    weights, bias = inputs.single(inputs.normal(12, 3, inputs.DIM)), inputs.single(inputs.normal(13, 3))
    return Head(weights, bias, torch.arange(3))


def linear_radii() -> Tensor:
    """Return the certified radius of four images against each other class than the one they get."""
    network, x = encoder(), inputs.images(4)
    labels = head().scores(network(x)).argmax(1)
    return certify_radii(Crown(intervals=False), network, head().margins(labels), x, Linf()).amin(1)


def linear_radii_by_hand() -> list[float]:
    """Return the same by bisection."""
    weights, bias = head().weights.double().numpy(), head().bias.double().numpy()
    found = []
    for x in pixels(inputs.images(4)):
        logits = reps_by_hand(x[None])[0] @ weights.T + bias
        own = int(logits.argmax())
        last, through = matrices()[-1], []
        for j in range(3):
            if j != own:
                # The row of two classes is a layer of its own behind the last one
                row = weights[own] - weights[j]
                maps = [*matrices()[:-1], (row[None] @ last[0], row[None] @ last[1] + bias[own] - bias[j])]
                through.append(by_hand.radius(maps, np.ones(1), x))
        found.append(min(through))
    return found


PAIR = PairProbability(256, 5, temperature=0.1, convention="paper")


def smoothed() -> dict[str, Tensor]:
    """Return Algorithm 2 for the first image and five negatives."""
    return concluded(PAIR, 0.1, draws(14, 256, 0.1))


def smoothed_by_hand() -> np.ndarray:
    """Return the same, of the negatives that Holdfast drew."""
    reps = reps_by_hand(pixels(inputs.images(6)))
    noisy = draws(14, 256, 0.1).double().numpy()
    return by_hand.smoothed_radius(noisy, reps[0], reps[smoothed()["negatives"][0].numpy()], 0.1, 0.1)


HITS = np.array([0, 400, 501, 620, 900, 999, 1000])
"""How many of 1,000 draws get the class."""


def certified() -> Tensor:
    """Return radii of a smoothed classifier."""
    seen = {"vote": torch.zeros(7), "hits": torch.from_numpy(HITS), "draws": torch.full((7,), 1000)}
    return Classifier(selection=100, draws=1000, alpha=0.001).conclude(seen, 0.25)["radius"]


@cache
def subject() -> Observed:
    """Return six images that are certified when it is asked for."""
    return real(inputs.images(COUNT))


COUNT, NEGATIVES, PLAIN = 6, 2, Crown(intervals=False)


def average_radius() -> float:
    """Return ACR_CL of six images."""
    measure = CertifiedRadius(PLAIN, Linf(), NEGATIVES)
    return float(measure.score(measure.observe(subject()))["certificate"].value or 0)


def compared() -> list[tuple[int, int]]:
    """Return which images those were compared with: Holdfast's draw, which is no part of a formula."""
    drawn = Radii(PLAIN, negatives=NEGATIVES).others(subject().shard(COUNT))
    return [(i, int(j)) for i, row in enumerate(drawn) for j in row]


def average_radius_by_hand() -> float:
    """Return Eq. 18, each radius by bisection."""
    x = pixels(inputs.images(COUNT))
    reps = reps_by_hand(x)
    return float(np.mean([by_hand.radius(matrices(), by_hand.margins(reps[i], reps[j]), x[i]) for i, j in compared()]))


SMALL = 0.03  # at which some of the pairs are certified


def instance_accuracy() -> float:
    """Return the certified share of pairs."""
    measure = InstanceAccuracy(PLAIN, Linf(SMALL), Pgd(5), negatives=NEGATIVES)
    return float(measure.score(measure.observe(subject()))["certificate"].value or 0)


def instance_accuracy_by_hand() -> float:
    """Return Eq. 20."""
    x = pixels(inputs.images(COUNT))
    reps = reps_by_hand(x)
    lower = [
        by_hand.crown(matrices(), by_hand.margins(reps[i], reps[j])[None], *by_hand.box(x[i], SMALL))[0]
        for i, j in compared()
    ]
    return float(np.mean(np.array(lower) > 0))


def moved() -> Tensor:
    """Return twelve images at random corners of balls, of which some are taken for others."""
    return (inputs.images(12) + 0.3 * inputs.single(np.sign(inputs.normal(15, 12, 1, 6, 6)))).clamp(0, 1)


def kept() -> float:
    """Return the share of pairs whose margin is positive at those."""
    reps, found = encoder()(inputs.images(12)).double(), encoder()(moved()).double()
    margin = Cosine().between(reps, torch.stack([reps.roll(-shift, 0) for shift in (1, 2, 3)], 1))
    return float((margin(found) > 0).double().mean())


def kept_by_hand() -> float:
    """Return Eq. 19 at those."""
    reps, found = reps_by_hand(pixels(inputs.images(12))), reps_by_hand(pixels(moved()))
    others = [np.roll(reps, -shift, 0) for shift in (1, 2, 3)]
    return float(np.mean([by_hand.cosine(found, reps) - by_hand.cosine(found, other) > 0 for other in others]))


TAIL = 12


def near() -> np.ndarray:
    """Return representations of 80 images."""
    return inputs.normal(16, 80, 6)


def attacked_near() -> np.ndarray:
    """Return the same a little moved."""
    return near() + 0.2 * inputs.normal(17, 80, 6)


def extreme(likelihood: str, column: str) -> Tensor:
    """Return what the measure fits to each image, or Ψ after an attack."""
    measure = MarginDistribution(attack=Pgd(10), readouts=(10,), tail=TAIL, likelihood=likelihood)  # type: ignore
    seen = told(torch.from_numpy(near()), {10: torch.from_numpy(attacked_near())})
    table = measure.observe(seen)
    return torch.stack([table["shape"], table["scale"]], 1) if column == "fit" else table["positive@10"]


def fits(likelihood: str) -> np.ndarray:
    """Return the same by hand."""
    return {"joint": by_hand.weibull_of_minimum, "independent": by_hand.weibull_of_draws}[likelihood](
        by_hand.nearest(near(), TAIL)
    )


def orders() -> Tensor:
    """Return Ψ_CL of the distances to the second and the fifth nearest."""
    rows = torch.from_numpy(by_hand.nearest(near(), TAIL))
    fit = FITS["joint"](rows)
    return torch.cat([beyond(fit, rows[:, k - 1], k) for k in (2, 5)])


def orders_by_hand() -> np.ndarray:
    """Return the same by hand."""
    rows = by_hand.nearest(near(), TAIL)
    return np.concatenate([by_hand.beyond(rows[:, k - 1], by_hand.weibull_of_minimum(rows), k) for k in (2, 5)])


def linear() -> float:
    """Return their correlation."""
    first, second = (torch.from_numpy(column) for column in columns())
    return float(pearson(first, second).value or 0)


def columns() -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of a table."""
    first = inputs.normal(18, 9)
    return first, first + inputs.normal(19, 9)


ON_PAIRS = "4 pairs of images x 3 radii, random convolutional network"
LIRPA = "`beta_crown/auto_LiRPA`"

COMPARISONS = (
    Comparison(
        "E.3: SimCLR's loss, NT-Xent", "objective `nt_xent`", Published("RVCL", "NT-Xent", "`rocl/loss.py`"),
        "6 images, 2 views; their logarithms have 1e-8 added", 1e-6,
        lambda: float(NtXent(0.5)(*views(2)).mean()),
    ),
    Comparison(
        "E.3: RoCL's loss of three views", "method `simclr`, `mutual`", Published("RVCL", "RoCL", "`rocl/loss.py`"),
        "6 images, 3 views; their logarithms have 1e-8 added", 1e-6, rocl,
    ),
    Comparison(
        "E.3: RoCL's loss of three views", "method `simclr`, `mutual`",
        ByHand(lambda: by_hand.mutual(views(3).double().numpy(), 0.5), "every softmax by a loop"),
        "6 images, 3 views", 1e-6, rocl,
    ),
    Comparison(
        "Definition 10, the attack on a representation", "attack `pgd`, objective `untargeted`",
        Published("RVCL", "attack", "`rocl/attack_lib.py`, `attack_pgd`"), "8 images after 20 steps, the same starts",
        1e-6, lambda: attack(False),
    ),
    Comparison(
        "Definition 10, the attack towards another image", "attack `pgd`, objective `targeted`",
        Published("RVCL", "attack towards", "`rocl/attack_lib.py`, `attack_pgd`"),
        "8 images after 20 steps, the same starts", 1e-6, lambda: attack(True),
    ),
    Comparison(
        "Eq. 11 to 13: the margin of a pair", "divergence `cosine`, `between`",
        Published("RVCL", "margin", "`beta_crown/model_beta_CROWN.py`"), "4 pairs of images", 1e-6,
        lambda: problem()[1](encoder()(problem()[0]).double()),
    ),
    Comparison(
        "Appendix C: interval bounds", "certifier `interval`", Published("RVCL", "IBP", LIRPA), ON_PAIRS, 2e-6,
        lambda: bounds(Interval()),
    ),
    Comparison(
        "Appendix C: interval bounds", "certifier `interval`",
        ByHand(lambda: bounds_by_hand(by_hand.interval), "whole matrices"), ON_PAIRS, 2e-6, lambda: bounds(Interval()),
    ),
    Comparison(
        "Appendix C: CROWN on interval bounds", "certifier `crown_ibp`",
        Published("RVCL", "CROWN-IBP|IBP", LIRPA, np.maximum),
        f"{ON_PAIRS}; the better of it and of interval arithmetic, which is what Holdfast returns", 2e-6,
        lambda: bounds(CrownIbp()),
    ),
    Comparison(
        "Lemma 25: CROWN", "certifier `crown`, `intervals=false`", Published("RVCL", "CROWN", LIRPA), ON_PAIRS, 2e-6,
        lambda: bounds(PLAIN),
    ),
    Comparison(
        "Lemma 25: CROWN", "certifier `crown`, `intervals=false`",
        ByHand(lambda: bounds_by_hand(by_hand.crown), "the lemma with whole matrices"), ON_PAIRS, 2e-6,
        lambda: bounds(PLAIN),
    ),
    Comparison(
        "Eq. 13 and Lemma 26: the exact minimum, to which β-CROWN closes in", "certifier `beta_crown`, `until=tight`",
        ByHand(exact_by_hand, "a mixed-integer program, SciPy's HiGHS"), "2 pairs, ε = .01, to 1e-5 of the margin",
        1e-5, exact,
    ),
    Comparison(
        "Definition 4, Eq. 14, Algorithm 1: the certified radius of a pair", "`certified_radius`",
        Published("RVCL", "radius", "`binary_search_unsupervised.py`"),
        "4 pairs; both search to 1e-6 of a pixel's range", 3e-5,
        lambda: certify_radii(PLAIN, encoder(), problem()[1], problem()[0], Linf()).flatten(),
    ),
    Comparison(
        "Definition 9, Eq. 18: average certified radius", "`certified_radius`",
        ByHand(average_radius_by_hand, "bisection with the lemma"),
        "6 images, 2 negatives each, as Holdfast draws", 3e-5, average_radius,
    ),
    Comparison(
        "Eq. 3 to 7: the radius of a linear classifier", "`linear_radius`",
        ByHand(linear_radii_by_hand, "bisection with the lemma"), "4 images, 3 classes", 3e-5, linear_radii,
    ),
    Comparison(
        "Definition 10, Eq. 19: robust instance accuracy", "the margin that `instance_accuracy` counts",
        ByHand(kept_by_hand, "cosines"), "36 pairs at given disturbed images", 1e-12, kept,
    ),
    Comparison(
        "Definition 11, Eq. 20: certified instance accuracy", "`instance_accuracy`, certificate",
        ByHand(instance_accuracy_by_hand, "the lemma with whole matrices"), "12 pairs, ε = .03", 1e-12,
        instance_accuracy,
    ),
    Comparison(
        "Eq. 8 and 9: randomized smoothing", "`smoothed_accuracy`, `smoothed_probe_accuracy`",
        ByHand(lambda: by_hand.certified(HITS, 1000, 0.001, 0.25), "SciPy's exact binomial test"),
        "7 counts of 1,000 draws", 1e-8, certified,
    ),
    Comparison(
        "Eq. 15 to 17, Algorithm 2: positive sample probability and radius",
        "`smoothed_radius`, `convention=paper`", ByHand(smoothed_by_hand, "a mean and SciPy's quantile"),
        "1 image, 5 negatives, 256 draws", 1e-5, lambda: smoothed()["radius"][0],
    ),
    Comparison(
        "Theorem 23: shape and scale of the margin, joint likelihood", "`margin_distribution`",
        ByHand(lambda: fits("joint"), "numerical maximum"), "80 images, λ = 12", 1e-6, lambda: extreme("joint", "fit"),
    ),
    Comparison(
        "Eq. 28: shape and scale, the λ nearest as draws", "`margin_distribution`, `likelihood=independent`",
        ByHand(lambda: fits("independent"), "root of the score by SciPy"), "80 images, λ = 12", 1e-8,
        lambda: extreme("independent", "fit"),
    ),
    Comparison(
        "Theorem 14, Eq. 30: Ψ after an attack", "`margin_distribution`",
        ByHand(lambda: by_hand.positive(attacked_near(), near(), fits("joint")), "from the fits above"),
        "80 images, λ = 12", 1e-5, lambda: extreme("joint", "Ψ"),
    ),
    Comparison(
        "Eq. 32 to 36: Ψ_CL of the k-th nearest", "`margin_calibration`", ByHand(orders_by_hand, "SciPy's Poisson law"),
        "80 images, k = 2 and 5", 1e-5, orders,
    ),
    Comparison(
        "Table 2: Pearson's correlation", "`pearson` of studies", ByHand(lambda: by_hand.correlation(*columns()),
        "NumPy"),
        "2 columns of 9 numbers", 1e-12, linear,
    ),
)  # fmt: skip
