"""Zhong et al. (2022), "Is Self-Supervised Learning More Robust Than Supervised Learning?"; they published no code."""

import numpy as np
import torch
from torch import Tensor

from benchmarks.same import inputs
from benchmarks.same.by_hand import contrastive as by_hand
from benchmarks.same.comparison import ByHand, Comparison
from benchmarks.same.observed import encoder
from holdfast.core import Batch, EncodedView, Facts, Rng
from holdfast.numerics import statistics
from holdfast.numerics.geometry import feature_space
from holdfast.numerics.geometry.fluctuation import semantic_fluctuation
from holdfast.numerics.statistics.jackknife import over_classes
from holdfast.numerics.statistics.ratios import relative_drop
from holdfast.parts.methods.supervised import Supervised
from holdfast.parts.probes.knn import Knn
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.parts.threats.local_shuffle import LocalShuffle
from holdfast.sources.encoders.shared.copies import trainable

PAPER = "Contrastive and supervised"

RNG = Rng(0, ids=("a", "b"))


def right() -> tuple[np.ndarray, np.ndarray]:
    """Return which of 200 images a classifier gets right, clean and under a corruption."""
    return (inputs.uniform(61, 200) < 0.9).astype(float), (inputs.uniform(62, 200) < 0.7).astype(float)


def drop() -> float:
    """Return Δ."""
    clean, corrupted = (statistics.share(torch.from_numpy(rows)) for rows in right())
    return float(relative_drop(corrupted, clean, 0.0).value or 0)


def gamma(power: float) -> Tensor:
    """Return what becomes of all levels."""
    return (
        (255 * Gamma(power).sample(torch.arange(256).float().view(1, 1, 16, 16) / 255, Rng(0, ids=("a",))))
        .round()
        .flatten()
    )


def pictures() -> Tensor:
    """Return two pictures of 8 x 12 in three colours."""
    return torch.from_numpy(inputs.uniform(63, 2, 3, 8, 12))


def reps() -> tuple[np.ndarray, np.ndarray]:
    """Return representations of 60 images, and their classes."""
    labels = np.arange(60) % 3
    return inputs.normal(64, 60, 7) + 2 * inputs.normal(65, 3, 7)[labels], labels


def both() -> tuple[Tensor, Tensor]:
    """Return the same as tensors."""
    rows, labels = reps()
    return torch.from_numpy(rows), torch.from_numpy(labels)


def by_class(contributions: Tensor) -> list[float]:
    """Return the mean of each class."""
    return [float(contributions[both()[1] == c].mean()) for c in range(3)]


def class_uniformity() -> list[float]:
    """Return U of each class."""
    return [float(feature_space.uniformity(both()[0][both()[1] == c]).mean()) for c in range(3)]


def correct() -> np.ndarray:
    """Return which images a probe gets right in six epochs."""
    return (inputs.uniform(66, 6, 60) < np.linspace(0.3, 0.8, 6)[:, None]).astype(float)


def fluctuation() -> list[float]:
    """Return TV of each class."""
    return by_class(semantic_fluctuation(torch.from_numpy(correct()), both()[1]))


def votes() -> Tensor:
    """Return shares of the votes of 20 neighbours for ten images."""
    rows, labels = both()
    scores = Knn(20, 0.1).fit(rows.float(), labels).scores(torch.from_numpy(inputs.normal(67, 10, 7)).float())
    return scores / scores.sum(1, keepdim=True)


def loss() -> float:
    """Return the loss of supervised training that asks for uniformity."""
    rows, labels = both()
    student = Supervised(uniformity=0.01).student(trainable(encoder()), Facts(dim=7, images=60, classes=3))
    view = EncodedView(rows, torch.from_numpy(inputs.normal(68, 60, 3)), None)
    return float(student.loss([view], Batch(torch.arange(60), labels)))


NUMBERS = "60 images in 3 classes, given representations"

COMPARISONS = (
    Comparison(
        "Eq. 1: Δ", "`relative_drop`, `fine_tuned_drop`",
        ByHand(lambda: by_hand.drop(*(float(rows.mean()) for rows in right())), "two means"), "200 images", 1e-12, drop,
    ),
    *(
        Comparison(
            f"Section 2.2: γ = {power:g}", "corruption `gamma`",
            ByHand(lambda power=power: by_hand.gamma(np.arange(256), power), "the power and the floor"),
            "all 256 levels",
            0, lambda power=power: gamma(power),
        )
        for power in (0.2, 5.0)
    ),
    Comparison(
        "Section 2.2: global shuffle", "corruption `global_shuffle`",
        ByHand(lambda: by_hand.global_shuffle(pictures().numpy(), 4, GlobalShuffle(4).order(8, 12).numpy()),
        "patch by patch"),
        "2 images, 4 x 4 patches, Holdfast's permutation", 0, lambda: GlobalShuffle(4).sample(pictures(), RNG),
    ),
    Comparison(
        "Section 2.2: local shuffle", "corruption `local_shuffle`",
        ByHand(lambda: by_hand.local_shuffle(pictures().numpy(), 4, LocalShuffle(4).order(8, 12).numpy()),
        "patch by patch"),
        "2 images, 4 x 4 patches, Holdfast's permutation", 0, lambda: LocalShuffle(4).sample(pictures(), RNG),
    ),
    Comparison(
        "Section 4: feature semantic fluctuation, TV", "`monitor`, semantic fluctuation",
        ByHand(lambda: by_hand.fluctuation(correct(), reps()[1]), "accuracies by epoch"),
        "60 images, 3 classes, 6 epochs", 1e-12,
        fluctuation,
    ),
    Comparison(
        "Section 4: uniformity U", "`uniformity`", ByHand(lambda: by_hand.uniformity(reps()[0]), "all pairs by a loop"),
        NUMBERS, 1e-12, lambda: float(feature_space.uniformity(both()[0]).mean()),
    ),
    Comparison(
        "Section 4: uniformity of each class", "`class_uniformity`",
        ByHand(lambda: [by_hand.uniformity(reps()[0][reps()[1] == c]) for c in range(3)], "all pairs by a loop"),
        NUMBERS, 1e-12,
        class_uniformity,
    ),
    Comparison(
        "Section 4: feature distance within classes", "`feature_distance`",
        ByHand(lambda: by_hand.feature_distance(*reps())[0], "all pairs by a loop; an image is not paired with itself"),
        NUMBERS, 1e-12, lambda: by_class(feature_space.within(*both())),
    ),
    Comparison(
        "Section 4: feature distance between classes", "`feature_distance`",
        ByHand(lambda: by_hand.feature_distance(*reps())[1], "all pairs by a loop"), NUMBERS, 1e-12,
        lambda: float(over_classes(feature_space.between(*both()), both()[1]).mean()),
    ),
    Comparison(
        "Section 2.1: weighted kNN", "probe `knn`",
        ByHand(lambda: by_hand.votes(inputs.normal(67, 10, 7), *reps(), k=20, temperature=0.1), "a sort and a sum"),
        "10 images, 60 known ones, k = 20", 1e-5, votes,
    ),
    Comparison(
        "A.2: uniformity regularisation", "method `supervised`",
        ByHand(lambda: by_hand.regularised(reps()[0], inputs.normal(68, 60, 3), reps()[1], 0.01),
        "all pairs by a loop"),
        "60 images, λ = .01", 1e-12, loss,
    ),
)  # fmt: skip
