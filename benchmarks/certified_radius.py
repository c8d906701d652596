"""Time of one image's certified radii against 9 negatives, as a ratio of a library's CROWN, bisected pair by pair.

    python -m benchmarks.certified_radius [--json]

The other search is RVCL's Algorithm 1: for every pair a bisection from [0, 1] to 1e-6, each step one call of
`compute_bounds(method="CROWN")` of auto_LiRPA in float32 on the network with the pair's margin folded into its last
layer (zero padding into the image, normalisation into the box: it reads neither). For α-CROWN the step is one
`CROWN-Optimized` with 20 iterations at our radius, times the steps of a bisection to 1e-5: an estimate. Both on the
same images, one thread, processor time of this process. Encoders of the authors where HOLDFAST_SHARED names the
folder that has them, random weights elsewhere. auto_LiRPA is not on the package index: clone
github.com/Verified-Intelligence/auto_LiRPA, install it with `pip install --no-deps`, and appdirs and graphviz as usual.
"""

import importlib
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.paced import beside
from benchmarks.result import Result, from_rounds, report
from holdfast.core import Encoder, Margin
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

TARGET, ALPHA_TARGET = 1 / 30, 1 / 20
SHORT = ("certified radii / 50 passes of 64 images, mnist_base",)
"""Names of what `short` measures."""
IMAGES, PAIRS, NEGATIVES = 2, 2, 9
TOLERANCE, ALPHA_TOLERANCE = 1e-6, 1e-5
ALPHA = ("mnist_cnn_a", "cifar_cnn_a")
MNIST, CIFAR = "mean=0&std=1", "mean=0.485,0.456,0.406&std=0.225"
ENCODERS = {
    "mnist_cnn_a": ("mnist_cnn_a_eps0", "cnn_a_mnist", MNIST),
    "mnist_base": ("mnist_base_eps0", "base_mnist", MNIST),
    "cifar_base": ("cifar10_base_eps0", "base_cifar", CIFAR),
    "cifar_cnn_a": ("cifar10_cnn_a_eps0", "cnn_a_cifar", CIFAR),
    "cifar_cnn_b": ("cifar10_cnn_b_eps0", "cnn_b_cifar", CIFAR),
    "cifar_deep": ("cifar10_deep_eps4.4", "deep_cifar", CIFAR),
}
"""Name of the weights, of the architecture, and the normalisation."""


def problem(name: str) -> tuple[Encoder, Tensor, Margin]:
    """Return an encoder, images and the margins of each against the nine others."""
    weights, architecture, pixels = ENCODERS[name]
    data = Path(os.environ.get("HOLDFAST_SHARED", "")) / "data"
    file = data / "encoders" / f"{weights}.safetensors"
    encoder = open_encoder(f"file:{file}?{pixels}" if file.exists() else f"zoo:{architecture}?seed=0&{pixels}")
    images = data / ("mnist_test.npz" if name.startswith("mnist") else "cifar10_lossless300.npz")
    if images.exists():
        x = torch.tensor(np.load(images)["images"][: NEGATIVES + 1]) / 255
        x = x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2).contiguous()
    else:
        shape = (1, 28, 28) if name.startswith("mnist") else (3, 32, 32)
        x = torch.rand(NEGATIVES + 1, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        reps = encoder(x)
    others = torch.tensor([[j for j in range(len(x)) if j != i] for i in range(len(x))])
    return encoder, x, Cosine().between(reps, reps[others])


def sequential(encoder: Encoder) -> tuple[list[nn.Module], Callable[[Tensor], Tensor]]:
    """Return the layers of a network without its zero padding, and what makes their input of pixels."""
    module: nn.Module = encoder.module
    while not isinstance(module, nn.Sequential):
        module = next(module.children())
    layers = [layer for layer in module if not isinstance(layer, nn.ZeroPad2d)]
    pad = next((layer for layer in module if isinstance(layer, nn.ZeroPad2d)), nn.Identity())
    norm = encoder.normalisation
    return layers, lambda pixels: pad(pixels if norm.identity else (pixels - norm.mean) / norm.std)


def peer(library: Any, encoder: Encoder, weights: Tensor, bias: Tensor, x: Tensor) -> Callable[[float, str], float]:
    """Return the library's bound of one pair's margin as a function of radius and method."""
    layers, normalised = sequential(encoder)
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    folded = nn.Linear(last.in_features, 1)
    with torch.no_grad():
        folded.weight.copy_(weights.float()[None] @ last.weight)
        folded.bias.copy_(weights.float() @ last.bias + bias.float())

    bounded = library.BoundedModule(nn.Sequential(*layers[:-1], folded).eval(), normalised(x), verbose=0)

    def bound(radius: float, method: str) -> float:
        box = {"x_L": normalised((x - radius).clamp(0, 1)), "x_U": normalised((x + radius).clamp(0, 1))}
        ball = library.PerturbationLpNorm(norm=math.inf, **box)
        with torch.set_grad_enabled(method != "CROWN"):
            inputs = (library.BoundedTensor(normalised(x), ball),)
            return float(bounded.compute_bounds(x=inputs, method=method, bound_upper=False)[0])

    return bound


def bisection(bound: Callable[[float, str], float]) -> float:
    """Return the radius of one pair by RVCL's Algorithm 1."""
    low, high = 0.0, 1.0
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle, "CROWN") > 0 else (low, middle)
    return low


def measure() -> list[Result]:
    """Return the ratio for each encoder; only our own times where auto_LiRPA is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library = importlib.import_module("auto_LiRPA")
    except ImportError as error:
        library = None
        print(f"not beside auto_LiRPA, which cannot be imported: {error}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = [beside_passes()]
        results += [_ratio(library, name) for name in ENCODERS]
        return results + [_alpha(library, name) for name in ALPHA]
    finally:
        torch.set_num_threads(threads)


def short() -> list[Result]:
    """Return the radii on the smallest network beside bare passes, which wants no other library."""
    return [beside_passes()]


def beside_passes(name: str = "mnist_base", passes: int = 50, rounds: int = 5) -> Result:
    """Return the time of an image's radii over that of bare passes, forward and to the pixels, of 64 images each.

    Args:
        name: of the encoder.
        passes: bare ones, of which some take about as long as an image's radii.
        rounds: of one image, each between two floors, after one that warms up.
    """
    encoder, x, margin = problem(name)
    own, rows, many = x[:1], margin.part(slice(0, 1)), x[:1].repeat(64, 1, 1, 1)

    def radii() -> None:
        certify_radii(Crown(), encoder, rows, own, Linf(), TOLERANCE)

    def bare() -> None:
        for _ in range(passes):
            pixels = many.clone().requires_grad_()
            torch.autograd.grad(encoder(pixels).sum(), pixels)

    ratios, floors = beside(radii, bare, rounds)
    note = f"an image, {rounds} rounds, {NEGATIVES} negatives, to {TOLERANCE:g}; floor {1e3 * min(floors):.0f} ms"
    return from_rounds(f"certified radii / {passes} passes of 64 images, {name}", ratios, None, note)


def _ratio(library: Any, name: str) -> Result:
    encoder, x, margin = problem(name)
    ratios, seconds, apart = [], [], 0.0
    for image in range(IMAGES + 1):  # the first one warms up
        own, rows = x[image : image + 1], margin.part(slice(image, image + 1))
        began = process_time()
        together = certify_radii(Crown(), encoder, rows, own, Linf(), TOLERANCE)[0]
        seconds.append(process_time() - began)
        if library is None or not image:
            continue
        began = process_time()
        alone = [bisection(peer(library, encoder, rows.weights[0, i], rows.bias[0, i], own)) for i in range(PAIRS)]
        ratios.append(seconds[-1] / ((process_time() - began) * NEGATIVES / PAIRS))
        apart = max(apart, float((torch.tensor(alone).double() - together[:PAIRS]).max()))
    each = 1e3 * sum(seconds[1:]) / IMAGES
    if not ratios:
        return Result(f"certified radii alone, {name}", each, None, "ms", None, "auto_LiRPA is not installed")
    note = f"{IMAGES} images, {each:.0f} ms each; {PAIRS} of {NEGATIVES} pairs by bisection, at most {apart:.0e} above"
    return from_rounds(f"certified radii, {name}", ratios, TARGET, note)


def _alpha(library: Any, name: str) -> Result:
    encoder, x, margin = problem(name)
    own, rows = x[:1], margin.part(slice(0, 1))
    began = process_time()
    radius = certify_radii(AlphaCrown(), encoder, rows, own, Linf(), ALPHA_TOLERANCE)[0]
    seconds = process_time() - began
    if library is None:
        return Result(f"α-CROWN radii alone, {name}", seconds, None, "s", None, "auto_LiRPA is not installed")
    bound = peer(library, encoder, rows.weights[0, 0], rows.bias[0, 0], own)
    began = process_time()
    bound(float(radius[0]), "CROWN-Optimized")
    step, steps = process_time() - began, math.ceil(-math.log2(ALPHA_TOLERANCE))
    note = f"1 image, {seconds:.0f} s; one of {NEGATIVES} x {steps} steps of the other, {step:.2f} s, scaled"
    ratio = seconds / (step * steps * NEGATIVES)
    return Result(f"α-CROWN radii, {name}", ratio, None, "x", ALPHA_TARGET, note)


if __name__ == "__main__":
    report(measure, __doc__)
