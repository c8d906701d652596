"""Time per step of learning a mixture, as a ratio of the encoder's forward and backward on the same number of samples.

    python -m benchmarks.learning_step [--json]

The paper's sizes: input-dependent, 3 components, latent 128, full covariances, learned up-sampler, 256 images × 32
draws (64 × 32 for ResNet-20). Random networks of CIFAR shape, one thread, processor time; each step between two
bare passes.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmarks.paced import beside
from benchmarks.result import Result, from_rounds, report
from holdfast.core import Encoder, Rng
from holdfast.parts.learners.shared import step as _step
from holdfast.parts.learners.shared.schedule import heat
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.sources.encoders import open_encoder

TARGET = 1.10
SHORT = ("learning step*",)
"""Names of what `short` measures."""
SAMPLES = 32
NETWORKS = {"zoo:cnn_b_cifar": 256, "zoo:resnet20_32": 64}
"""Network -> images in a batch."""


def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
    """Return the margin of a classifier whose logits are the first ten numbers, all images being of class 0."""
    return reps[..., 1:10].amax(-1) - reps[..., 0]


def bare(encoder: Encoder, x: Tensor) -> Callable[[], None]:
    """Return the floor: forward and backward to the pixels, in passes as large as the learner's."""
    many = x.repeat_interleave(SAMPLES, 0)
    parts = many.split(max(1, _step.PIXELS["cpu"] // (SAMPLES * x[0].numel())) * SAMPLES)

    def passes() -> None:
        for part in parts:
            pixels = part.clone().requires_grad_()
            event(encoder(pixels)[:, None], torch.zeros(len(part), dtype=torch.long)).sum().backward()

    return passes


def learning(encoder: Encoder, x: Tensor) -> Callable[[], None]:
    """Return one step as the learner makes it: outputs, draws, passes, clipping, Adam."""
    learner = WorstMixture(samples=SAMPLES)
    with torch.no_grad():
        clean = encoder(x)
    network = learner._build(x, clean, None, Rng(0))
    noise, numbers = LearnedNoise(network, Linf(0.03)), torch.Generator().manual_seed(0)
    adam = torch.optim.Adam(network.parameters(), learner.rate, fused=True)

    def step() -> None:
        adam.zero_grad()
        outputs = network.outputs(clean, None, heat(0.5))
        drawn = _step.draw(len(x), SAMPLES, noise, x, numbers)
        _step.descend(encoder, event, noise, outputs, x, torch.arange(len(x)), drawn, 0.5, learner._loss)
        torch.nn.utils.clip_grad_norm_(network.parameters(), learner.clip)
        adam.step()

    return step


def measure(rounds: int = 5) -> list[Result]:
    """Return the ratio for every network.

    Args:
        rounds: steps that are timed, after one that is not.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = []
        for name, images in NETWORKS.items():
            encoder = open_encoder(name)
            x = torch.rand(images, 3, 32, 32, generator=torch.Generator().manual_seed(0))
            floor, step = bare(encoder, x), learning(encoder, x)
            ratios, floors = beside(step, floor, rounds)
            note = f"{images} × {SAMPLES} samples, {rounds} steps, floor {min(floors):.2f} s"
            results.append(from_rounds(f"learning step, {name.removeprefix('zoo:')}", ratios, TARGET, note))
        return results
    finally:
        torch.set_num_threads(threads)


def short() -> list[Result]:
    """Return the same of fewer rounds."""
    return measure(rounds=2)


if __name__ == "__main__":
    report(measure, __doc__)
