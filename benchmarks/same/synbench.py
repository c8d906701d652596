"""Ko et al. (2022), "SynBench: Task-Agnostic Benchmarking of Pretrained Representations using Synthetic Data"."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.same import inputs
from benchmarks.same.by_hand import synbench as by_hand
from benchmarks.same.comparison import ByHand, Comparison, Published
from holdfast.numerics.gaussian_classes import synbench
from holdfast.numerics.gaussian_classes.nearest_shift import nearest_shift
from holdfast.numerics.gaussian_classes.robust_bayes import GaussianClasses, RobustBayes
from holdfast.numerics.gaussian_classes.thin import thin_fit

PAPER = "SynBench"

VALUES, HALF = np.array([2.0, 1.0, 0.5, 0.25, 0.1]), np.array([1.0, -0.8, 0.6, 0.3, 0.2])
"""Variances and half the distance of the means of two classes."""

BUDGETS = (0.3, 0.8, 1.2)
WEAK = (0.2, 0.5, 0.9)
"""Budgets at which no ball holds both means."""

EPSILONS = (0.0, 0.3, 0.7)
SEPARATIONS = (0.5, 1.0, 2.0)
STARTS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
GRID = np.linspace(0.55, 0.999, 12)


def rules(norm: float, budgets: tuple[float, ...] = BUDGETS) -> RobustBayes:
    """Return the robust classifiers of the two classes."""
    classes = GaussianClasses(torch.zeros(5), None, torch.from_numpy(VALUES), torch.from_numpy(HALF))
    return classes.classifiers(torch.tensor(budgets, dtype=torch.float64), relative=False, norm=norm)


def shifts(norm: float) -> Tensor:
    """Return z_Λ(μ̃) for each budget."""
    mu, values = torch.from_numpy(HALF), torch.from_numpy(VALUES)
    return torch.stack(
        [nearest_shift(mu, values, torch.tensor(budget, dtype=torch.float64), norm) for budget in BUDGETS]
    )


def margins() -> Tensor:
    """Return decision margins of unequal classes with independent noise."""
    mu = torch.from_numpy(HALF)
    classes = GaussianClasses(torch.zeros(5), None, torch.ones(5).double(), mu, share=0.3)
    return classes.classifiers(torch.tensor([0.4], dtype=torch.float64), relative=False).decision_margins(points())[0]


def points() -> Tensor:
    """Return 20 points."""
    return torch.from_numpy(inputs.normal(71, 20, 5))


def bounds() -> Tensor:
    """Return the expected scaled bound at given accuracies."""
    return synbench.reference(torch.special.ndtri(torch.from_numpy(GRID)))[1]


def tested(which: int) -> Tensor:
    """Return accuracies (0) or mean scaled bounds (1) on the other half, for each separation and ε."""
    rows = []
    for separation in SEPARATIONS:
        first, signs, second = inputs.classes(separation)
        fitted = thin_fit(torch.from_numpy(first), torch.from_numpy(signs))
        scaled = fitted.classifiers(torch.tensor(EPSILONS, dtype=torch.float64)).relative_margins(
            torch.from_numpy(second), torch.from_numpy(signs)
        )
        right = scaled > 0
        rows.append([right.double().mean(1), torch.where(right, scaled, 0.0).sum(1) / right.sum(1)][which])
    return torch.stack(rows)


def tested_by_hand(which: int) -> list[float]:
    """Return the same by hand."""
    return [by_hand.tested(*inputs.classes(s), epsilon)[which] for s in SEPARATIONS for epsilon in EPSILONS]


def scores() -> list[float]:
    """Return the score at each start."""
    accuracy, bound, best, ideal = map(torch.from_numpy, inputs.trade_off())
    areas: Callable[..., float] = lambda a, b, start: float(synbench.area(a, b, start).sum())  # noqa: E731
    return [areas(accuracy, bound, start) / areas(best, ideal, start) for start in STARTS]


def curve() -> Tensor:
    """Return E(a) at 50 thresholds."""
    accuracy, bound, _, _ = map(torch.from_numpy, inputs.trade_off())
    return synbench.curve(accuracy, bound, torch.linspace(0.6, 0.99, 50).double())


def curve_by_hand() -> np.ndarray:
    """Return the same by hand."""
    accuracy, bound, _, _ = inputs.trade_off()
    return by_hand.curve(accuracy, bound, torch.linspace(0.6, 0.99, 50).double().numpy())


def accuracies(norm: float, budgets: tuple[float, ...] = BUDGETS) -> list[float]:
    """Return accuracies of the robust classifiers, by a general solver."""
    return [by_hand.accuracy(HALF, VALUES, budget, norm) for budget in budgets]


CODE = "`evaluate_synbench.py`"
CLASSES = "5 dimensions, 3 budgets"
HALVES = "3 x 400 representations in 6 dimensions, ε 0, .3 and .7 of the distance"

COMPARISONS = (
    Comparison(
        "Result 2.1: decision margin, classes of shares .3 and .7", "`synbench`",
        ByHand(lambda: by_hand.isotropic_margin(points().numpy(), HALF, 0.4, 0.3), "its formula"),
        "20 points, ε = .4", 1e-12,
        margins,
    ),
    Comparison(
        "Result 2.2: the nearest shift z_Λ", "`synbench`", Published("synbench", "shift", f"{CODE}, `qcqp_solve`"),
        f"{CLASSES}; they take an iterative solver (SCS)", 1e-5, lambda: shifts(2),
    ),
    Comparison(
        "Result 2.2: standard accuracy of a robust classifier", "`synbench`",
        ByHand(lambda: accuracies(2), "SciPy's SLSQP"), CLASSES, 1e-7, lambda: rules(2).accuracy(),
    ),
    Comparison(
        "Result 2.3: expected scaled bound", "`synbench`", Published("synbench", "bound",
        f"{CODE}, `func_bound_correct`"),
        "12 accuracies", 1e-12, bounds,
    ),
    Comparison(
        "Result 2.3: expected scaled bound", "`synbench`",
        ByHand(lambda: [by_hand.expected_bound(a) for a in GRID], "the integral itself"), "12 accuracies", 1e-10,
        bounds,
    ),
    Comparison(
        "Result 2.4: accuracy on representations", "`synbench`, `convention=authors`",
        Published("synbench", "tested accuracy", f"{CODE}, `get_bound_rep`"), HALVES, 1e-9, lambda: tested(0),
    ),
    Comparison(
        "Result 2.4: mean scaled bound on representations", "`synbench`, `convention=authors`",
        Published("synbench", "tested bound", f"{CODE}, `get_bound_rep`"), f"{HALVES}; theirs in float32, by SCS",
        1e-5,
        lambda: tested(1),
    ),
    Comparison(
        "Result 2.4: accuracy on representations", "`synbench`, `convention=authors`",
        ByHand(lambda: tested_by_hand(0), "NumPy's eigenvectors and SciPy's SLSQP"), HALVES, 1e-9, lambda: tested(0),
    ),
    Comparison(
        "Result 2.4: mean scaled bound on representations", "`synbench`, `convention=authors`",
        ByHand(lambda: tested_by_hand(1), "NumPy's eigenvectors and SciPy's SLSQP"), HALVES, 1e-5, lambda: tested(1),
    ),
    Comparison(
        "Eq. 2: E(a), the expected bound above an accuracy", "`synbench`", ByHand(curve_by_hand,
        "a mean at each threshold"),
        "49 classifiers, 50 thresholds", 1e-12, curve,
    ),
    Comparison(
        "Eq. 3: SynBench score", "`synbench`", Published("synbench", "score", f"{CODE}, what it prints"),
        "49 classifiers, a_t .6 to .99", 1e-9, scores,
    ),
    Comparison(
        "Eq. 3: SynBench score", "`synbench`",
        ByHand(lambda: [by_hand.score(*inputs.trade_off(), start) for start in STARTS], "two areas"),
        "49 classifiers, a_t .6 to .99", 1e-12, scores,
    ),
    *(
        Comparison(
            f"Results C.1 to C.3: accuracy for ℓ{'∞' if math.isinf(norm) else f'{norm:g}'}", "`synbench`, `norm`",
            ByHand(lambda norm=norm: accuracies(norm, WEAK), "SciPy's SLSQP"), CLASSES, 1e-6,
            lambda norm=norm: rules(norm, WEAK).accuracy(),
        )
        for norm in (3.0, math.inf)
    ),
)  # fmt: skip
