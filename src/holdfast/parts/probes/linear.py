"""Linear probe: multinomial logistic regression on frozen representations."""

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Head, LinearProbe, Reps
from holdfast.numerics.geometry.invariance import AXES
from holdfast.parts.probes.shared.training import check_finite, classes_of, standardise
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue, Failed


@dataclass(frozen=True)
class Linear(LinearProbe):
    """min Σ_i -log softmax(W z_i + b)_{y_i} + penalty/2 ||W||², z = (f(x) - m) / s feature by feature.

    m and s, of the training images, are folded into the head: weights W/s, bias b - W (m/s). The problem is convex
    and solved to the end, so the head depends on no seed, order or learning rate.

    Attributes:
        penalty: weight of ||W||²/2; 1 is that of scikit-learn's default.
        iterations: the most that L-BFGS may make.

    Source: the linear evaluation of Chen et al. (2020a), solved as scikit-learn's LogisticRegression does.

    Example:
        >>> reps, labels = torch.tensor([[1.0, 0.0], [1.1, 0.1], [0.0, 1.0], [0.1, 1.2]]), torch.tensor([0, 0, 1, 1])
        >>> Linear().fit(reps, labels).scores(reps).argmax(1).tolist()
        [0, 0, 1, 1]
    """

    invariant = AXES

    penalty: float = 1.0
    iterations: Count = 5000

    def __post_init__(self) -> None:
        if not self.penalty > 0:
            raise BadValue(f"linear: expected penalty > 0 (without it separable classes have no head), got {self}")

    def fit(self, reps: Reps, labels: Int[Tensor, "batch"]) -> Head:
        """Return the head in float32, [C, D].

        Raises:
            HoldfastError: representations that are not finite, one class only, or no convergence.
        """
        from sklearn.exceptions import ConvergenceWarning  # slow to import, and most audits read no labels
        from sklearn.linear_model import LogisticRegression

        # multinomial logistic regression on standardised representations
        check_finite(reps)
        classes, targets = classes_of(labels)
        features, centre, scale = standardise(reps)
        solver = LogisticRegression(C=1 / self.penalty, max_iter=self.iterations, tol=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                solver.fit(features.cpu().numpy(), targets.cpu().numpy())
            except ConvergenceWarning as error:
                raise Failed(
                    f"linear: no convergence in {self.iterations} iterations on {len(reps)} images; raise penalty "
                    f"(now {self.penalty:g}) or iterations"
                ) from error
        weights, bias = torch.from_numpy(solver.coef_), torch.from_numpy(solver.intercept_)
        if len(classes) == 2:  # scikit-learn keeps one row for two classes: the difference of theirs
            weights, bias = torch.cat([-weights, weights]) / 2, torch.cat([-bias, bias]) / 2
        # undo the standardisation
        weights = weights.double() / scale.cpu()
        return Head(weights.float().contiguous(), (bias - weights @ centre.cpu()).float(), classes.cpu())
