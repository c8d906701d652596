"""What may be done to an image before it is represented, so that a search gets nowhere."""

import math
from functools import partial

import torch
import torch.nn.functional as functional
from torch import Tensor

from benchmarks.hiding.masks import Function, Mask, altered, identity


def faint(size: float = 1e-6) -> Function:
    """Return the identity, so small that nothing is left of its gradient but its sign."""
    return lambda x: size * x


def wrong(x: Tensor) -> Tensor:
    """Return the pixels with signs that were drawn once."""
    return x * _pattern(x).sub(0.5).sign()


def saturated(steepness: float) -> Mask:
    """Return 1 / (1 + e^-k(x - ½)), which is flat nearly everywhere."""
    return Mask(lambda x: torch.sigmoid(steepness * (x - 0.5)), honest=(identity, _soft, None))


def _soft(x: Tensor) -> Tensor:
    return torch.sigmoid(5 * x - 2.5)


def clipped(low: float, high: float) -> Mask:
    """Return pixels clipped to a range, stretched to [0, 1]."""
    return Mask(lambda x: (x.clamp(low, high) - low) / (high - low), honest=(identity, None))


def stretched(times: float) -> Mask:
    """Return k(x - ½) + ½, clipped."""
    return clipped(0.5 - 0.5 / times, 0.5 + 0.5 / times)


def quantised(levels: int, shown: Function | None = None) -> Mask:
    """Return the nearest of k levels; of two, this is a threshold. Rounding by itself has the gradient zero."""
    return Mask(lambda x: torch.round(x * (levels - 1)) / (levels - 1), shown)


def thermometer(levels: int, steepness: float) -> Mask:
    """Return how many thresholds each pixel exceeds; steep sigmoids have the gradient."""
    marks = [(level + 0.5) / levels for level in range(levels)]
    return Mask(
        lambda x: sum(((x > mark).to(x) for mark in marks), torch.zeros_like(x)) / levels,
        lambda x: sum((torch.sigmoid(steepness * (x - mark)) for mark in marks), torch.zeros_like(x)) / levels,
    )


def stairs(levels: int, steepness: int) -> Mask:
    """Return k steps that are rounded off: differentiable, and flat between them."""

    def value(x: Tensor) -> Tensor:
        whole, rest = (x * levels).floor(), (x * levels).frac()
        up, down = rest**steepness, (1 - rest) ** steepness
        return (whole + up / (up + down)) / levels

    return Mask(value, honest=(identity, None))


def dithered(shown: Function | None = None) -> Mask:
    """Return black and white by an ordered pattern of thresholds, 4 × 4."""
    bayer = torch.tensor([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]).add(0.5).div(16)
    return Mask(lambda x: (x > bayer.to(x).repeat(x.shape[2] // 4, x.shape[3] // 4)).to(x), shown)


def compressed(step: float, shown: Function | None = None) -> Mask:
    """Return 8 × 8 blocks of which the cosine coefficients are rounded, as JPEG does; high frequencies the most."""
    places = torch.arange(8.0)
    cosines = torch.cos(math.pi * (2 * places + 1) * places[:, None] / 16) / 2
    cosines[0] /= 2**0.5
    steps = step * (1 + (places + places[:, None]) / 2)

    def value(x: Tensor) -> Tensor:
        turn = cosines.to(x)
        blocks = x.unfold(2, 8, 8).unfold(3, 8, 8)
        rounded = torch.round(turn @ blocks @ turn.T / steps.to(x)) * steps.to(x)
        return (turn.T @ rounded @ turn).transpose(3, 4).reshape(x.shape)

    return Mask(value, shown)


def _neighbourhoods(x: Tensor) -> Tensor:
    padded = functional.pad(x, (1, 1, 1, 1), mode="replicate")
    return padded.unfold(2, 3, 1).unfold(3, 3, 1).flatten(4)


def median(shown: Function | None = None) -> Mask:
    """Return the median of 3 × 3 pixels."""
    return Mask(lambda x: _neighbourhoods(x).median(4).values, shown, (identity, None))


def normalised(floor: float) -> Mask:
    """Return local contrast: each pixel less the mean of 3 × 3, over their deviation and a floor."""

    def value(x: Tensor) -> Tensor:
        around = _neighbourhoods(x)
        return 0.5 + 0.2 * (x - around.mean(4)) / (around.var(4) + floor**2).sqrt()

    return Mask(value, honest=(identity, None))


def ranged(share: float) -> Mask:
    """Return each image stretched between two of its own quantiles."""

    def value(x: Tensor) -> Tensor:
        low, high = torch.quantile(x.flatten(1), torch.tensor([share, 1 - share]).to(x), dim=1)[:, :, None, None, None]
        return ((x - low) / (high - low).clamp_min(1e-3)).clamp(0, 1)

    return Mask(value, honest=(None, identity))


def brightest(share: float) -> Mask:
    """Return the brightest pixels of each image, black elsewhere."""

    def value(x: Tensor) -> Tensor:
        least = x.flatten(1).topk(max(1, round(share * x[0].numel())), dim=1).values[:, -1]
        return x * (x >= least[:, None, None, None])

    return Mask(value, honest=(None, identity))


def power(exponent: float) -> Mask:
    """Return x^p."""
    return Mask(lambda x: x.clamp_min(0) ** exponent, honest=(None, identity))


def logarithm(steepness: float) -> Mask:
    """Return ln(1 + kx) / ln(1 + k)."""
    return Mask(lambda x: torch.log1p(steepness * x.clamp_min(0)) / math.log1p(steepness), honest=(None, identity))


def folded(times: int) -> Mask:
    """Return pixels solarised several times: up, down, and up again."""
    return Mask(lambda x: 1 - (2 * (x * times / 2 + 0.5).frac() - 1).abs(), honest=(None, identity))


def shattered(size: float, frequency: float) -> Mask:
    """Return x + a sin(kx), whose gradient points anywhere."""
    return Mask(lambda x: x + size * torch.sin(frequency * x), honest=(identity, None))


def noisy(size: float) -> Mask:
    """Return pixels with new noise in each pass."""
    return Mask(lambda x: x + size * torch.randn_like(x), honest=(None,))


def shifted(most: int) -> Mask:
    """Return images rolled by a random way."""

    def value(x: Tensor) -> Tensor:
        rows, columns = torch.randint(-most, most + 1, (2,)).tolist()
        return x.roll((rows, columns), (2, 3))

    return Mask(value, honest=(None,))


def resized(most: float) -> Mask:
    """Return images made smaller by a random share, and black around."""

    def value(x: Tensor) -> Tensor:
        height, width = (max(2, round(side * (1 - most * float(torch.rand(()))))) for side in x.shape[2:])
        small = functional.interpolate(x, (height, width), mode="bilinear", align_corners=False)
        return functional.pad(small, (0, x.shape[3] - width, 0, x.shape[2] - height))

    return Mask(value, honest=(None,))


def _pattern(x: Tensor) -> Tensor:
    """Return a number in [0, 1] for each place of an image, always the same."""
    return torch.rand(x.shape[1:], generator=torch.Generator().manual_seed(0)).to(x)


def lying(name: str) -> Mask:
    """Return the image itself, whose gradient lies; see `LIES`."""
    return Mask(identity, altered(LIES[name]))


def _smallest(gradient: Tensor) -> Tensor:
    return gradient * (gradient.abs() <= gradient.abs().flatten(1).median(1).values[:, None, None, None])


def _smooth(gradient: Tensor) -> Tensor:
    return functional.avg_pool2d(gradient, 5, 1, 2)


def _upper(gradient: Tensor) -> Tensor:
    return gradient * (torch.arange(gradient.shape[2]).to(gradient) < gradient.shape[2] / 2)[:, None]


def _disturbed(gradient: Tensor, size: float) -> Tensor:
    return gradient + size * gradient.std() * torch.randn_like(gradient)


LIES: dict[str, Function] = {
    "negated": torch.neg,
    "random": torch.randn_like,
    "zero": torch.zeros_like,
    "faint": lambda gradient: 1e-30 * gradient,
    "disturbed": partial(_disturbed, size=3.0),
    "drowned": partial(_disturbed, size=30.0),
    "sparse": lambda gradient: gradient * (_pattern(gradient) < 0.05),
    "rolled": lambda gradient: gradient.roll((2, 3), (2, 3)),
    "of another image": lambda gradient: gradient.roll(1, 0),
    "constant": torch.ones_like,
    "low-passed": _smooth,
    "of the upper half": _upper,
    "where it is small": _smallest,
    "scaled pixel by pixel": lambda gradient: gradient * 10 ** (60 * _pattern(gradient) - 30),
    "signs drawn once": lambda gradient: gradient * (_pattern(gradient) - 0.5).sign(),
    "of swapped channels": lambda gradient: gradient.flip(1),
}
"""How the gradient of an image may lie."""
