"""How the time of an image's certified radii grows with K, the negatives that they are certified against.

    python -m benchmarks.negatives [--json] [--plot DIR]

CNN-A with random weights on images of noise, 1e-4, one thread, processor time, the median over images after one that
warms up. All negatives are searched together; the yardstick is K searches for one.
"""

from statistics import median
from time import process_time

import torch
from torch import Tensor

from benchmarks.curve import Curve
from benchmarks.result import Result, report
from holdfast.core import Encoder
from holdfast.numerics.geometry.margins import between
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.radius import certified_radii
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

COUNTS = (1, 3, 9, 27, 81)
IMAGES, TOLERANCE = 3, 1e-4
ENCODER = "zoo:cnn_a_mnist?seed=0&mean=0&std=1"


def seconds(encoder: Encoder, x: Tensor, reps: Tensor, image: int, count: int, tolerance: float) -> float:
    """Return the processor time of one image's radii against so many others."""
    others = reps[[i for i in range(len(x)) if i != image][:count]]
    margin = between(reps[image : image + 1], others[None])
    began = process_time()
    found = certified_radii(Crown(), encoder, margin, x[image : image + 1], Linf(), tolerance)
    spent = process_time() - began
    if tuple(found.shape) != (1, count):
        raise RuntimeError(f"expected {count} radii, got {tuple(found.shape)}")
    return spent


def measure(counts: tuple[int, ...] = COUNTS, images: int = IMAGES, tolerance: float = TOLERANCE) -> list[Result]:
    """Return the exponent of time over K, and the time for the most negatives against one by one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        encoder = open_encoder(ENCODER)
        x = torch.rand(max(counts) + images + 1, 1, 28, 28, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            reps = encoder(x)
        times = {k: [seconds(encoder, x, reps, i, k, tolerance) for i in range(images + 1)][1:] for k in counts}
        curve = Curve(
            "certified radii, time by K", "negatives", "processor seconds", counts, tuple(map(median, times.values()))
        )
        share = curve.values[-1] / (counts[-1] / counts[0] * curve.values[0])
        note = f"{curve.text()} s an image, {images} images"
        return [
            Result("K, certified radii, exponent", curve.exponent(), None, "", None, note, curve),
            Result(f"K, {counts[-1]} negatives / one by one", share, None, "x", None, "the same search for one each"),
        ]
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    report(measure, __doc__)
