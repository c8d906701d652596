"""How the time of certified radii grows: with the depth and width of a network, with images, and with K negatives.

    python -m benchmarks.certificate_growth [--json] [--plot DIR]

Random convolutions (3 x 3, ReLU) and a linear head on noise of 8 x 8 pixels, CROWN to 1e-4, one thread, processor
time. One of the four sizes grows, the others stay at `USUAL`; the median over rounds of other images, after one that
warms up. All negatives of an image are searched together; the yardstick is as many searches for one.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median
from time import process_time

import torch
from torch import Tensor, nn

from benchmarks.curve import Curve
from benchmarks.result import Result, report
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.core import Encoder, Margin
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.threats.linf import Linf

ROUNDS, TOLERANCE = 3, 1e-4
SHAPE, DIMENSIONS = (1, 8, 8), 32


@dataclass(frozen=True)
class Problem:
    """What is certified.

    Attributes:
        depth: convolutions of the network.
        width: channels of each.
        images: certified together.
        negatives: of each image.
    """

    depth: int
    width: int
    images: int
    negatives: int

    def encoder(self) -> Encoder:
        """Return the network, with random weights."""
        torch.manual_seed(0)
        channels = (SHAPE[0], *[self.width] * self.depth)
        layers = [layer for a, b in pairwise(channels) for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU())]
        head = nn.Linear(self.width * SHAPE[1] * SHAPE[2], DIMENSIONS)
        return Encoder(nn.Sequential(*layers, nn.Flatten(), head).eval(), mean=0, std=1)

    def seconds(self, seed: int, tolerance: float) -> float:
        """Return the processor time of the radii of some images of noise."""
        encoder = self.encoder()
        x = torch.rand(self.images + self.negatives, *SHAPE, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            reps = encoder(x)
        others = reps[self.images :].expand(self.images, -1, -1)
        return seconds(encoder, x[: self.images], Cosine().between(reps[: self.images], others), tolerance)


def seconds(encoder: Encoder, x: Tensor, margin: Margin, tolerance: float) -> float:
    """Return the processor time of CROWN's radii of some images."""
    began = process_time()
    radii = certify_radii(Crown(), encoder, margin, x, Linf(), tolerance)
    spent = process_time() - began
    if radii.shape != margin.bias.shape:
        raise RuntimeError(f"expected radii {list(margin.bias.shape)}, got {list(radii.shape)}")
    return spent


USUAL = Problem(depth=4, width=8, images=1, negatives=9)
SIZES = {
    "depth": (2, 4, 8, 16),
    "width": (4, 8, 16, 32),
    "images": (1, 2, 4, 8),
    "negatives": (1, 3, 9, 27, 81),
}


def measure(
    sizes: Mapping[str, tuple[int, ...]] = SIZES, rounds: int = ROUNDS, tolerance: float = TOLERANCE
) -> list[Result]:
    """Return the exponent of time over each size, and the time for the most negatives against one by one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = []
        for name, counts in sizes.items():
            times = []
            for count in counts:
                problem = replace(USUAL, **{name: count})
                times.append(median([problem.seconds(seed, tolerance) for seed in range(rounds + 1)][1:]))
            curve = Curve(f"certified radii, time by {name}", name, "processor seconds", counts, tuple(times))
            others = ", ".join(f"{k} {v}" for k, v in asdict(USUAL).items() if k != name)
            note = f"{curve.text()} s; {others}"
            exponent = f"certified radii by {name}, exponent"
            results.append(Result(exponent, curve.exponent(), None, "", None, note, curve))
            if name == "negatives":
                share = times[-1] / (counts[-1] / counts[0] * times[0])
                one_by_one = f"{counts[-1]} negatives / one by one"
                results.append(Result(one_by_one, share, None, "x", None, "the same search for one each"))
        return results
    finally:
        torch.set_num_threads(threads)


def table(run: Run) -> str:
    """Return the time at every size, and exponents."""
    rows = []
    for name in SIZES:
        row, curve = run.of(f"certified radii by {name}"), run.curve(f"certified radii by {name}")
        sizes, times = (", ".join(map(figures, numbers)) for numbers in (curve.sizes, curve.values))
        rows.append([name, sizes, times, f"{row.value:.2g}"])
    return markdown(["grows", "at", "processor seconds", "exponent"], rows)


if __name__ == "__main__":
    report(measure, __doc__)
