"""Divergences d(r, r') between representations, image by image; `neighbours.py` has them for all pairs.

Each is differentiable and written so that its gradient is finite where r = r'.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.runtime.errors import HoldfastError, unknown

PerImage = Float[Tensor, "*batch"]
Divergence = Callable[[Float[Tensor, "*batch dim"], Float[Tensor, "*batch dim"]], PerImage]

_ROWS = 4096
"""Pairs whose unit vectors are held at once: those of a whole population take several times the memory of its own."""


def squared_l2(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> PerImage:
    """Return ||a - b||_2^2.

    Example:
        >>> squared_l2(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
        25.0
    """
    return (a - b).square().sum(-1)


def l2(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> PerImage:
    """Return ||a - b||_2 (with gradient zero, not NaN, at a = b).

    Example:
        >>> l2(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
        5.0
    """
    return torch.linalg.vector_norm(a - b, dim=-1)


def l1(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> PerImage:
    """Return ||a - b||_1.

    Example:
        >>> l1(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
        7.0
    """
    return (a - b).abs().sum(-1)


def linf(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> PerImage:
    """Return max_k |a_k - b_k|.

    Example:
        >>> linf(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
        4.0
    """
    return (a - b).abs().amax(-1)


def cosine(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> PerImage:
    """Return 1 - <a, b> / (||a|| ||b||), in [0, 2]; 1 where a or b is zero.

    Computed as ½ ||u - v||² of the unit vectors, which is exactly zero, and never below, where a = b.

    Example:
        >>> cosine(torch.tensor([1.0, 0.0]), torch.tensor([[5.0, 0.0], [0.0, 1.0], [-2.0, 0.0]])).tolist()
        [0.0, 1.0, 2.0]
    """
    if a.ndim == 2 and a.shape == b.shape and len(a) > _ROWS:  # each row is for itself, so nothing changes
        return torch.cat([cosine(*rows) for rows in zip(a.split(_ROWS), b.split(_ROWS), strict=True)])
    u, v = unit(a), unit(b)
    absent = (u == 0).all(-1).to(u) + (v == 0).all(-1).to(v)  # a zero vector has no direction: ½ ||u - v||² lacks ½
    return ((u - v).square().sum(-1) + absent) / 2


def kl(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> PerImage:
    """Return KL(softmax(b) || softmax(a)): how far the features a are from those of the reference b.

    The reference comes first inside the logarithm's weight, as in virtual adversarial training
    (Miyato et al. 2019; Alayrac et al. 2019).

    Example:
        >>> round(kl(torch.tensor([0.0, 0.0]), torch.tensor([math.log(3), 0.0])).item(), 4)
        0.1308
    """
    log_a, log_b = F.log_softmax(a, -1), F.log_softmax(b, -1)
    value = (log_b.exp() * (log_b - log_a)).sum(-1)
    return value + (-value.detach()).clamp_min(0)  # rounding may fall below zero; the gradient is kept


def wasserstein(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> PerImage:
    """Return the 2-Wasserstein distance of the diagonal Gaussians that a VAE encoder outputs.

    A representation is (μ, log σ²), each of D/2 values; W₂² = ||μ_a - μ_b||² + ||σ_a - σ_b||²
    (Cemgil et al. 2020; appendix A.1 of "Robustness of unsupervised representation learning without labels").

    Example:
        >>> wasserstein(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 0.0])).item()  # μ 3 and 0, σ 1
        3.0
    """
    return l2(gaussian(a), gaussian(b))


def unit(reps: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Return reps / ||reps||_2, zero where reps is zero.

    Example:
        >>> unit(torch.tensor([[0.0, 2.0], [0.0, 0.0]])).tolist()
        [[0.0, 1.0], [0.0, 0.0]]
    """
    # Clamped, for `where` divides everywhere: the gradient at a zero vector is 0 instead of NaN
    norm = torch.linalg.vector_norm(reps, dim=-1, keepdim=True)
    return torch.where(norm > 1e-30, reps / norm.clamp_min(1e-30), torch.zeros_like(reps))


def gaussian(reps: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Return (μ, σ) of representations that hold (μ, log σ²).

    Example:
        >>> gaussian(torch.tensor([5.0, 0.0])).tolist()
        [5.0, 1.0]
    """
    if reps.shape[-1] % 2:
        raise HoldfastError(
            f"wasserstein: expected an even number of features (μ, then log σ²), got {reps.shape[-1]}; "
            "use it with an encoder that outputs both"
        )
    mean, log_variance = reps.chunk(2, -1)
    return torch.cat([mean, (log_variance / 2).exp()], -1)


DIVERGENCES: dict[str, Divergence] = {f.__name__: f for f in (l2, squared_l2, l1, linf, cosine, kl, wasserstein)}


def divergence(name: str) -> Divergence:
    """Return the divergence of this name.

    Raises:
        HoldfastError: a name that is not in `DIVERGENCES`.

    Example:
        >>> divergence("l1")(torch.ones(2), torch.zeros(2)).item()
        2.0
    """
    if name not in DIVERGENCES:
        raise unknown("divergence", name, DIVERGENCES)
    return DIVERGENCES[name]
