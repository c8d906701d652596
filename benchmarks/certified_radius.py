"""Time of one image's certified radii against 9 negatives, as a ratio of the same search done pair by pair.

    python -m benchmarks.certified_radius [--json]

The other search is RVCL's Algorithm 1: for every pair a bisection from [0, 1] to 1e-6, each step one evaluation of the
CROWN bound of that pair in float32, by the same engine (convolutions as patches, interval arithmetic for the first
layer). Both in turns, one thread, processor time of this process. The networks have random weights; with
HOLDFAST_SHARED set to the folder of trained encoders, CNN-A for MNIST of the authors is measured on its images.
"""

import os
from pathlib import Path
from time import process_time

import numpy as np
import torch
from torch import Tensor

from benchmarks.result import Result, from_rounds, report
from holdfast.core import Encoder, Margin
from holdfast.numerics.bounds.backward import Region
from holdfast.numerics.geometry.margins import between
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import prepare
from holdfast.parts.certifiers.shared.radius import certified_radii
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

TARGET = 1 / 10
IMAGES = 4
TOLERANCE = 1e-6


def problems() -> list[tuple[str, Encoder, Tensor]]:
    """Return names, encoders and ten images each."""
    noise = torch.rand(10, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    found = [("random CNN-A", open_encoder("zoo:cnn_a_mnist?seed=0&mean=0&std=1"), noise)]
    shared = Path(os.environ.get("HOLDFAST_SHARED", "")) / "data"
    for name in ("mnist_cnn_a_eps0", "mnist_cnn_a_eps0.2"):
        weights = shared / "encoders" / f"{name}.safetensors"
        if weights.exists():
            images = np.load(shared / "mnist_test.npz")["images"][:10]
            found.append((name, open_encoder(f"file:{weights}?mean=0&std=1"), torch.tensor(images)[:, None] / 255))
    return found


def bisection(encoder: Encoder, margin: Margin, x: Tensor) -> Tensor:
    """Return the radii of all pairs of one image, each found on its own."""
    network, region, margin = prepare(encoder, margin, x, Linf(), torch.zeros(1))
    radii = []
    for row in range(margin.bias.shape[1]):
        pair = Margin(margin.weights[:, row : row + 1].float(), margin.bias[:, row : row + 1].float())
        low, high = 0.0, 1.0
        while high - low > TOLERANCE:
            middle = (low + high) / 2
            around = Region.around(region.ball, region.x.float(), torch.tensor([middle]))
            bound, _ = Crown().lower(network.single, pair, around)
            low, high = (middle, high) if float(bound) > 0 else (low, middle)
        radii.append(low)
    return torch.tensor(radii, dtype=torch.float64)


def measure() -> list[Result]:
    """Return the ratio for each encoder."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_ratio(*problem) for problem in problems()]
    finally:
        torch.set_num_threads(threads)


def _ratio(name: str, encoder: Encoder, x: Tensor) -> Result:
    with torch.no_grad():
        reps = encoder(x)
    ratios, seconds, apart = [], [], 0.0
    for image in range(IMAGES + 1):
        others = reps[[i for i in range(len(x)) if i != image]]
        margin, own = between(reps[image : image + 1], others[None]), x[image : image + 1]
        began = process_time()
        together = certified_radii(Crown(), encoder, margin, own, Linf(), TOLERANCE)[0]
        middle = process_time()
        alone = bisection(encoder, margin, own)
        ratios.append((middle - began) / (process_time() - middle))
        seconds.append(middle - began)
        apart = max(apart, float((alone - together).max()))
    each = 1e3 * sum(seconds[1:]) / IMAGES
    note = f"{IMAGES} images, {each:.0f} ms each; at most {apart:.1e} below what bisection finds"
    return from_rounds(f"certified radius, {name}", ratios[1:], TARGET, note)  # the first image warms up


if __name__ == "__main__":
    report(measure, __doc__)
