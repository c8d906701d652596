"""The classifiers that an adversary with a known budget hurts least, of two Gaussian classes with one covariance.

`GaussianClasses` are given, or fitted to representations; their `classifiers` are exact for every budget and need no
solver. Everything is in float64.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor

from holdfast.numerics.gaussian_classes.nearest_shift import check_norm, dual_norm, length, nearest_shift, weights_along
from holdfast.runtime.errors import BadValue, NotEnough, NotFinite, unknown

Reps = Float[Tensor, "images dim"]
Signs = Num[Tensor, "images"]
PerRadius = Float[Tensor, "radii"]

SHRINKAGES = ("none", "ledoit_wolf")

_CHUNK = 1024
_INVISIBLE = 8 * 2.0**-23


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """Two Gaussian classes, x | y ~ N(centre + y F μ̃, F Λ Fᵀ) with y = ±1 and P(y = 1) = p, in D dimensions.

    Attributes:
        centre: the point between the two means, [D].
        vectors: F, K orthonormal columns, [D, K]; None for the coordinate axes themselves, K = D.
        values: the diagonal of Λ, variances > 0, [K].
        half: μ̃ = Fᵀ(μ₁ - μ₂)/2, half the distance of the two means, [K].
        share: p.

    Raises:
        HoldfastError: p outside (0, 1), variances that are not positive, or numbers that are not finite.

    Example:
        >>> values, half = torch.tensor([1.0, 0.25]), torch.tensor([1.0, 0.5])
        >>> mixture = GaussianClasses(torch.zeros(2), None, values, half)
        >>> mixture.classifiers(torch.tensor([0.0, 0.5])).robust_accuracy()
        tensor([0.9214, 0.7378], dtype=torch.float64)
    """

    centre: Float[Tensor, "dim"]
    vectors: Float[Tensor, "dim k"] | None
    values: Float[Tensor, "k"]
    half: Float[Tensor, "k"]
    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise BadValue(f"mixture: expected a share of class +1 between 0 and 1, got {self.share}; .5 is usual")
        for name in ("centre", "values", "half", "vectors"):
            tensor = getattr(self, name)
            if tensor is not None and not bool(tensor.isfinite().all()):
                raise NotFinite(f"mixture: expected finite {name}, got NaN or infinite ones")
            object.__setattr__(self, name, None if tensor is None else tensor.detach().cpu().double())
        if bool((self.values <= 0).any()):
            raise BadValue("mixture: expected variances > 0; leave directions without variance out of F")

    @property
    def threshold(self) -> float:
        """What (x - centre)ᵀFw must exceed for class +1, whatever the budget: q / 2 = ½ ln((1 - p) / p)."""
        return 0.5 * math.log((1 - self.share) / self.share)

    def classifiers(
        self, epsilons: Float[Tensor, "radii"], *, relative: bool = True, norm: float = 2.0
    ) -> "RobustBayes":
        """Return the ε-robust Bayes classifiers: sign((x - centre)ᵀFw - q/2) with w = Λ⁻¹(μ̃ - z), one for each ε.

        No classifier of Fᵀx is right for a larger share of images all of whose neighbours within ε must be right too:
        the adversary can move both means to ±(μ̃ - z), whose best classifier this is, and can do no more against it.
        With fewer columns than dimensions F hides the others; for p = 2 they do not matter, for other p they might.

        Args:
            epsilons: ε >= 0.
            relative: whether the radius is ε ||F μ̃||_p, so that ε = 1 moves the means together (for p other than 2 and
                K < D less may do), as in the authors' code; or ε itself, in units of x, as in the paper.
            norm: p >= 1 of the ball, in the space of x; infinity too.

        Raises:
            HoldfastError: p < 1, ε that is negative or NaN, or (p other than 2) variances too far apart.

        Source: "SynBench", Results 2.1, 2.4 and C.3; Bhagoji et al. (2019); Dan et al. (2020). For p other than 2 see
        `weights_along`; for shares other than .5 the threshold is that of Result 2.1.
        """
        check_norm(norm)
        radii = epsilons.detach().cpu().double()
        if not bool((radii >= 0).all()):
            raise BadValue(f"robust Bayes classifiers: expected epsilons >= 0, got {epsilons.tolist()}")
        # No direction in which images vary: no weights
        if len(self.half) == 0:
            return RobustBayes(self, 0 * radii if relative else radii, radii.new_zeros(len(radii), 0), norm)
        # The means are 2 ||F μ̃||_p apart, in the norm of the ball
        radii = radii * length(self._spread_for_norm(self.half, norm), norm) if relative else radii
        # Where F keeps the p-norm, the ball is the same in the coordinates in which noise is independent
        if norm == 2 or self.vectors is None or bool(((self.vectors != 0).sum(0) == 1).all()):
            # The weights Λ⁻¹(μ̃ - z) of Results 2.4 and C.3, for all radii at once, [R, K]
            half = self.half.expand(len(radii), -1)
            weights = (half - nearest_shift(half, self.values, radii, norm)) / self.values
        else:
            weights = weights_along(self.half, self.vectors, self.values, radii, norm)
        return RobustBayes(self, radii, weights, norm)

    def _spread_for_norm(self, rows: Float[Tensor, "*rows k"], norm: float) -> Float[Tensor, "*rows other"]:
        """Return rows of the same length as F applied to them: themselves for p = 2."""
        return rows if norm == 2 else self._spread(rows)

    def _spread(self, rows: Float[Tensor, "*rows k"]) -> Float[Tensor, "*rows dim"]:
        """Return F applied to every row."""
        return rows if self.vectors is None else rows @ self.vectors.T


@dataclass(frozen=True, eq=False)
class RobustBayes:
    """The ε-robust Bayes classifiers of a mixture, one for each radius.

    Where the adversary can make both classes alike (ε >= ||μ̃||, or no direction has noise) w is 0 and the classifier
    answers nothing: `relative_margins` and the margins are 0, and so is `bound`.

    Attributes:
        mixture: the mixture.
        radii: the adversary's ε in units of x, [R].
        weights: w, [R, K].
        norm: p of the adversary's ball.

    Example:
        >>> mixture = GaussianClasses(torch.zeros(2), None, values=torch.ones(2), half=torch.tensor([1.0, 0.0]))
        >>> mixture.classifiers(torch.tensor([0.5]), relative=False).decision_margins(torch.tensor([[2.0, 5.0]]))
        tensor([[2.]], dtype=torch.float64)
    """

    mixture: GaussianClasses
    radii: Float[Tensor, "radii"]
    weights: Float[Tensor, "radii k"]
    norm: float = 2.0

    def accuracy(self) -> PerRadius:
        """Return the share of the mixture that is right: p Φ((m - q/2) / v) + (1-p) Φ((m + q/2) / v).

        m = μ̃ᵀw and v² = wᵀΛw; Φ(m / v) where p = ½. Where w is 0 it is max(p, 1-p), that of the more frequent class.

        Source: "SynBench", Result 2.2, for any p.
        """
        return self._share(self._mean())

    def robust_accuracy(self) -> PerRadius:
        """Return the share of the mixture that is right whatever the adversary does: `accuracy` with m - ε ||Fw||_q."""
        return self._share(self._mean() - self.radii * self._length())

    def bound(self) -> PerRadius:
        """Return E[y ((x - centre)ᵀFw - q/2) / m | right], the mean of `relative_margins` over the right answers.

        With α = m ∓ q/2 for the two classes, Σ share (α Φ(α/v) + v φ(α/v)) / (m accuracy); where p = ½ it is
        1 + φ(Φ⁻¹(a)) / (a Φ⁻¹(a)), a the accuracy.

        Source: "SynBench", Result 2.3, for any p.
        """
        mean, spread = self._mean(), self._deviation()
        total = torch.zeros_like(mean)
        # E[max(t, 0)] of a normal t with mean α and deviation v, the mean of a truncated one times
        # its probability
        for share, excess in self._classes(mean):
            z = excess / spread
            total += share * (excess * torch.special.ndtr(z) + spread * _density(z))
        # Over what is right, and in units of m; without weights there is no bound
        return torch.where(spread > 0, total / (mean * self.accuracy()), 0.0)

    def decision_margins(self, x: Reps) -> Float[Tensor, "radii images"]:
        """Distance of points from the boundary, |(x - centre)ᵀFw - q/2| / ||Fw||_q, in units of x.

        Args:
            x: points, [N, D].

        Source: "SynBench", Results 2.1 and 2.4; C.3 with the dual norm of the ball.
        """
        size = self._length()[:, None]
        return torch.where(size > 0, self._excess(x).abs() / size, 0.0)

    def relative_margins(self, x: Reps, signs: Signs) -> Float[Tensor, "radii images"]:
        """Return y ((x - centre)ᵀFw - q/2) / μ̃ᵀw: above 0 exactly where the answer is right.

        Its size is the distance to the boundary in units of that of the class's mean (where p = ½), in every norm.

        Args:
            x: points, [N, D].
            signs: y, their classes, ±1.

        Raises:
            HoldfastError: signs other than ±1.

        Source: "SynBench", Result 2.4.
        """
        _check_signs(signs)
        mean = self._mean()[:, None]
        return torch.where(mean > 0, self._excess(x) * signs.detach().cpu().double() / mean, 0.0)

    def _mean(self) -> PerRadius:
        return self.weights @ self.mixture.half

    def _deviation(self) -> PerRadius:
        return (self.weights.square() @ self.mixture.values).sqrt()

    def _length(self) -> PerRadius:
        if self.weights.shape[1] == 0:
            return torch.zeros_like(self.radii)
        return length(self.mixture._spread_for_norm(self.weights, self.norm), dual_norm(self.norm))

    def _classes(self, mean: PerRadius) -> tuple[tuple[float, PerRadius], tuple[float, PerRadius]]:
        share, threshold = self.mixture.share, self.mixture.threshold
        return (share, mean - threshold), (1 - share, mean + threshold)

    def _share(self, mean: PerRadius) -> PerRadius:
        spread, (plus, minus) = self._deviation(), self._classes(mean)
        right = sum(share * torch.special.ndtr(excess / spread) for share, excess in (plus, minus))
        return torch.where(spread > 0, right, max(plus[0], minus[0]))

    def _excess(self, x: Reps) -> Float[Tensor, "radii images"]:
        """Return (x - centre)ᵀFw - q/2."""
        # Normals in the space of x, [R, D]
        normals = self.mixture._spread(self.weights)
        offset = normals @ self.mixture.centre + self.mixture.threshold
        # Some images at a time in float64
        products = [normals @ part.detach().cpu().double().T for part in x.split(_CHUNK)]
        return torch.cat(products, 1) - offset[:, None]


def directions(
    centred: Reps, freedom: int, *, shrinkage: str = "none", cutoff: float = 1e-6
) -> tuple[Float[Tensor, "dim k"], Float[Tensor, "k"], float]:
    """Return V, v and r of the covariance V diag(v) Vᵀ + r I of centred data, through the smaller Gram matrix.

    It is XᵀX / freedom (r = 0), shrunk if asked.

    Ledoit and Wolf's shrinkage is (1-c) S + c tr(S)/D I with c = min(β, δ) / δ, β = (Σ ||x||⁴ / N - ||S||²) / (D N),
    δ = (||S||² - tr(S)²/D) / D and S = XᵀX / N: the c with the least expected error. S's eigenvectors stay.

    Args:
        centred: data X without its mean (or the means of its classes), [N, D] in float64.
        freedom: N less the number of means.
        shrinkage: "none" or "ledoit_wolf".
        cutoff: eigenvalues below this part of the largest are no directions.

    Raises:
        HoldfastError: another shrinkage, or a cutoff outside [0, 1).

    Source: Ledoit & Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices".

    Example:
        >>> vectors, values, rest = directions(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).double(), freedom=1)
        >>> values.tolist(), rest
        ([2.0], 0.0)
    """
    if shrinkage not in SHRINKAGES:
        raise unknown("shrinkage", shrinkage, SHRINKAGES)
    if not 0 <= cutoff < 1:
        raise BadValue(f"cutoff: expected a part of the largest eigenvalue, in [0, 1), got {cutoff}")
    # eigenvectors of the smaller Gram matrix
    n, dim = centred.shape
    wide = dim > n
    # Rising eigenvalues, so they are turned round; below 0 they are rounding
    values, vectors = torch.linalg.eigh((centred @ centred.T if wide else centred.T @ centred) / freedom)
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
    total = float(values.sum())
    least = float(values[0]) * max(cutoff, max(n, dim) * 2.0**-52)
    part, rest, keep = 0.0, 0.0, values > least
    if shrinkage == "ledoit_wolf" and bool(keep.any()):
        # Ledoit and Wolf's c = min(β, δ) / δ shrinks towards tr(S)/D I
        # Of S = XᵀX / N, where `values` are those of XᵀX / freedom
        squares = float(values.square().sum()) * (freedom / n) ** 2
        beta = (float(centred.square().sum(1).square().sum()) / n - squares) / (dim * n)
        delta = (squares - (total * freedom / n) ** 2 / dim) / dim
        part = min(max(beta, 0.0), delta) / delta if delta > 0 else 0.0
        # What is not above the cutoff after shrinkage is part of the rest, which has this variance
        shrunk = part * total / dim
        keep = (1 - part) * values + shrunk > least
        keep &= values > (1e-10 * float(values[0]) if wide else -1.0)  # the other Gram matrix is exact up to there
        rest = shrunk if shrunk > least else 0.0
    # the directions that are kept, back in D dimensions
    values, vectors = values[keep], vectors[:, keep]
    if wide:
        # V = Xᵀ U / √(freedom v), from the eigenvectors U of XXᵀ
        vectors = centred.T @ (vectors / (freedom * values).sqrt())
    return vectors, (1 - part) * values, rest


def fit(
    reps: Reps, signs: Signs, *, shrinkage: str = "none", cutoff: float = 1e-6, share: float = 0.5
) -> GaussianClasses:
    """Return the mixture that representations of two classes suggest: their means and their pooled covariance / (N-2).

    What the means differ by outside the directions in which the classes vary is one more column of F. With shrinkage it
    has the variance of the rest. Without, it has that of the cutoff where there are more representations than
    dimensions: such classes are told apart for certain. Where there are not, it is chance and is left out, as the paper
    does always (its thin decomposition). Coordinates that differ by rounding only, 8 · 2⁻²³ of their size, do not
    differ.

    Args:
        reps: representations, [N, D].
        signs: their classes, ±1.
        shrinkage: "none", or "ledoit_wolf" for D near N or above; see `directions`.
        cutoff: eigenvalues below this part of the largest are left out. The authors leave out those below 1e-6; but
            representations have no natural scale.
        share: p of the mixture; the classes' shares among the representations are not read.

    Raises:
        HoldfastError: representations that are not finite, signs other than ±1, or fewer than two of a class.

    Source: "SynBench", section 2.2.2.

    Example:
        >>> reps = torch.tensor([[1.0, 0.1], [1.2, -0.1], [-1.0, 0.1], [-1.2, -0.1]])
        >>> mixture = fit(reps, torch.tensor([1, 1, -1, -1]))
        >>> mixture.classifiers(torch.zeros(1)).relative_margins(reps, torch.tensor([1, 1, -1, -1])).min().item() > 0
        True
    """
    _check_signs(signs)
    if not bool(reps.isfinite().all()):
        raise NotFinite("mixture: expected finite representations, got NaN or infinite ones")
    reps, plus = reps.detach().cpu().double(), signs.detach().cpu() > 0
    counts = int(plus.sum()), int((~plus).sum())
    if min(counts) < 2:
        raise NotEnough(f"mixture: expected two representations of each class or more, got {counts}; draw more")
    # means and pooled deviations; coordinates that differ by rounding alone do not differ
    means = reps[plus].mean(0), reps[~plus].mean(0)
    rounding, half = _INVISIBLE * reps.abs().amax(0), (means[0] - means[1]) / 2
    centred = reps - torch.where(plus[:, None], *means)
    varies = centred.abs().amax(0) > rounding
    # Coordinates without noise keep a difference of the means that is more than rounding
    centred, half = centred * varies, half * (varies | (half.abs() > rounding))
    vectors, values, rest = directions(centred, len(reps) - 2, shrinkage=shrinkage, cutoff=cutoff)
    # where there is no noise outside the directions, classes that differ there are told apart for certain
    if rest == 0 and reps.shape[1] < len(reps) - 2 and bool(half.any()):
        # Where nothing varies at all, rounding is the only unit that there is
        least = float(rounding[half != 0].max()) ** 2 if len(values) == 0 else cutoff * float(values[0])
        return build_mixture(vectors, values, rest, half, (means[0] + means[1]) / 2, share, outside=least)
    return build_mixture(vectors, values, rest, half, (means[0] + means[1]) / 2, share)


def build_mixture(
    vectors: Float[Tensor, "dim k"],
    values: Float[Tensor, "k"],
    rest: float,
    half: Float[Tensor, "dim"],
    centre: Float[Tensor, "dim"],
    share: float = 0.5,
    outside: float = 0.0,
) -> GaussianClasses:
    """Return the mixture of a covariance V diag(v) Vᵀ + r I, with one more column for what is outside V.

    That column is the part of the difference of the means outside V. For p = 2 nothing is lost: the weights of every
    classifier lie in these columns.

    Args:
        vectors: V, orthonormal columns, [D, K].
        values: v, [K].
        rest: r >= 0, the variance outside V and what every direction has in addition.
        half: half the difference of the means, [D].
        centre: the point between them, [D].
        share: p.
        outside: the variance outside V where r is 0; where it is 0 too, what is outside is left out.

    Example:
        >>> covariance = torch.tensor([[1.0], [0.0]]).double(), torch.tensor([2.0]).double(), 0.5
        >>> half, centre = torch.tensor([1.0, 1.0]).double(), torch.zeros(2).double()
        >>> build_mixture(*covariance, half=half, centre=centre).values.tolist()
        [2.5, 0.5]
    """
    inside = half @ vectors
    outer = half - vectors @ inside
    outer = outer - vectors @ (outer @ vectors)  # again, as rounding may have left some
    size, values = outer.norm(), values + rest
    if max(rest, outside) > 0 and size > 1e-12 * half.norm():
        vectors = torch.cat([vectors, (outer / size)[:, None]], 1)
        values = torch.cat([values, values.new_tensor([max(rest, outside)])])
        inside = torch.cat([inside, size[None]])
    return GaussianClasses(centre, vectors, values, inside, share)


def _check_signs(signs: Signs) -> None:
    if not bool((signs.abs() == 1).all()):
        raise BadValue("mixture: expected classes +1 and -1, got others; use 2 * labels - 1 for labels 0 and 1")


def _density(z: Tensor) -> Tensor:
    return torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
