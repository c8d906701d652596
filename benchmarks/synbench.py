"""What SynBench costs beside the encoder's own passes, and beside a convex solver for every robust classifier.

    python -m benchmarks.synbench [--json]

Five timm networks with random weights at 224 x 224. Drawing and representing are measured on 128 images and counted
for the 4,096 of one s; fitting and testing, for 9 values of ε, at full size. Processor time, one thread. The convex
problems of 49 s and 9 ε in 768 dimensions are solved by SCS (its default accuracy, set-up included) for one s, counted
for all.
"""

import math
import resource
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.result import Result, report
from holdfast.core import Encoder
from holdfast.numerics.gaussian_classes.conditional import ConditionalGaussian, ones
from holdfast.numerics.gaussian_classes.covariance import isotropic
from holdfast.numerics.gaussian_classes.nearest_shift import nearest_shift
from holdfast.numerics.gaussian_classes.robust_bayes import fit
from holdfast.sources.encoders import open_encoder

MODELS = ("resnet18", "resnet50", "vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224")
SAMPLES, MEASURED, EPSILONS = 2048, 128, torch.arange(9, dtype=torch.float64) / 10
SHAPE, TARGET = (3, 224, 224), 0.05
MEMORY = 2.0


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def outside(encoder: Encoder) -> tuple[float, float, int]:
    """Return the time of one s outside the encoder and inside it, and the encoder's dimensions."""
    model = ConditionalGaussian(SHAPE, ones(math.prod(SHAPE)), 1.0, isotropic(math.prod(SHAPE)))
    noise, signs = np.random.Generator(np.random.SFC64(0)), torch.ones(32, dtype=torch.float64)
    drawing = representing = 0.0
    dim = 0
    for _ in range(MEASURED // 32):
        images: list[Tensor] = []
        drawing += seconds(lambda images=images: images.append(model.draw(signs, noise)))
        x = images[0]
        representing += seconds(lambda x=x: encoder(x))
        dim = encoder(x[:1]).shape[1]
    scale = 2 * SAMPLES / MEASURED
    reps = torch.randn(2, SAMPLES, dim, generator=torch.Generator().manual_seed(0))
    classes = torch.where(torch.arange(SAMPLES) % 2 == 0, 1.0, -1.0).double()

    def test() -> None:
        for half in (0, 1):
            fit(reps[half], classes).classifiers(EPSILONS).relative_margins(reps[1 - half], classes)

    return drawing * scale + seconds(test), representing * scale, dim


def solver() -> Result:
    """Return our time for all robust classifiers as a share of the convex solver's."""
    import scs
    from scipy import sparse

    random = np.random.default_rng(0)
    k, steps = 768, 49
    values, mu = random.uniform(0.01, 10, k), random.normal(size=k)
    radii = [0.1 * e * float(np.linalg.norm(mu)) for e in range(1, 9)]
    every = torch.from_numpy(np.tile(mu, (steps, 9, 1)))
    ours = seconds(lambda: nearest_shift(every, torch.from_numpy(values), torch.tensor([0.0, *radii]).double()))

    def solve(radius: float) -> None:
        # min ½ zᵀ P z - (P μ)ᵀ z with P = Λ⁻¹, ‖z‖ <= radius as a second-order cone
        data = {"P": sparse.diags(1 / values).tocsc(), "c": -mu / values, "b": np.r_[radius, np.zeros(k)]}
        data["A"] = sparse.vstack([sparse.csc_matrix((1, k)), -sparse.eye(k)]).tocsc()
        scs.SCS(data, {"q": [k + 1]}, verbose=False).solve()

    theirs = steps * sum(seconds(lambda radius=radius: solve(radius)) for radius in radii)
    note = f"{steps} x 9 problems in {k} dimensions: {ours:.2f} s, SCS {theirs:.0f} s"
    return Result("robust classifiers / SCS", ours / theirs, None, "x", None, note)


def measure() -> list[Result]:
    """Return the share of SynBench's time that is not the encoder's, for five networks, and the solver's ratio."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = []
        for name in MODELS:
            own, theirs, dim = outside(open_encoder(f"timm:{name}?weights=random"))
            note = f"one s, D = {dim}: {own:.1f} s beside {theirs:.0f} s of encoder passes"
            results.append(Result(f"outside the encoder, {name}", own / theirs, None, "x", TARGET, note))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        results.append(Result("peak memory", peak, None, "GiB", MEMORY, "networks, images and fits together"))
        return [*results, solver()]
    finally:
        torch.set_num_threads(before)


if __name__ == "__main__":
    report(measure, __doc__)
