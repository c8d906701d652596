"""Common corruptions: noise of every value on its own."""

import torch

from holdfast.core import Images, Rng


def gaussian_noise(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x + c z with z ~ N(0, I): poor light."""
    (deviation,) = constants
    return x + deviation * rng.normal(*x.shape[1:]).to(x)


def speckle_noise(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x + c x z with z ~ N(0, I): noise that grows with the light."""
    (deviation,) = constants
    return x + deviation * x * rng.normal(*x.shape[1:]).to(x)


def shot_noise(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return Poisson(c x) / c: light is made of photons."""
    (photons,) = constants
    rates = (photons * x).cpu()  # drawn where the generators are, so that every device sees the same photons
    counts = [torch.poisson(rate, rng.generator(name)) for rate, name in zip(rates, rng.ids, strict=True)]
    return torch.stack(counts).to(x) / photons


def impulse_noise(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x with a share c of all values gone, half of them black and half of them white."""
    (share,) = constants
    # One number decides: the lowest c / 2 turn black, the highest c / 2 white
    u = rng.uniform(*x.shape[1:]).to(x.device)
    return x.masked_fill(u < share / 2, 0.0).masked_fill(u >= 1 - share / 2, 1.0)
