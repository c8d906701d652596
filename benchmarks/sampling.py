"""Time per noisy draw, as a ratio of the bare forward loop over ready images of the same network.

    python -m benchmarks.sampling [--json]

16 images, which draw together (the ResNet: one), one thread, certificates at work: the whole observation, with its
noise, against forward passes of as many ready images in batches of the same size. Both are timed in turns, in processor
time of this process, so both see the same machine. 0.9 of the bare throughput is a ratio of 1 / 0.9.
"""

from collections.abc import Iterator
from statistics import median
from time import process_time

import torch
from torch import nn

from benchmarks.result import Result, from_rounds, report
from holdfast.core import Encoder, Rng, Shard
from holdfast.parts.observations.smoothed import Smoothed, block_size
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.smoothing.shared.certificate import Certificate
from holdfast.sources.encoders import open_encoder

TARGET = 1 / 0.9
SHORT = tuple(f"sampling {name}, pairs" for name in ("CNN-A on MNIST", "CNN-A on CIFAR-10", "CNN-B on CIFAR-10"))
"""Names of what `short` measures."""
POPULATION = 500


def certificates(draws: int) -> dict[str, tuple[Certificate, ...]]:
    """Return certificates that read exactly so many draws, by name."""
    pairs = PairProbability(draws, precision=0.0)
    return {"pairs": (pairs,), "pairs and instances": (pairs, Classifier(100, draws - 100))}


def cnn_a(channels: int, side: int) -> nn.Module:
    """Return RVCL's CNN-A: two convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (side // 4) ** 2, 100),
    )


def cnn_b() -> nn.Module:
    """Return RVCL's CNN-B for CIFAR-10, which is wider."""
    return nn.Sequential(
        nn.ZeroPad2d((1, 2, 1, 2)),
        nn.Conv2d(3, 32, 5, 2),
        nn.ReLU(),
        nn.Conv2d(32, 128, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8192, 100),
    )


def networks() -> Iterator[tuple[str, nn.Module, tuple[int, int, int, int], int, int]]:
    """Yield names, networks, shapes of the images, draws of each and rounds."""
    yield "ResNet-18 at 32²", open_encoder("zoo:resnet18_32").module, (1, 3, 32, 32), 512, 3
    yield "CNN-B on CIFAR-10", cnn_b(), (16, 3, 32, 32), 1024, 3
    yield "CNN-A on MNIST", cnn_a(1, 28), (16, 1, 28, 28), 2048, 5
    yield "CNN-A on CIFAR-10", cnn_a(3, 32), (16, 3, 32, 32), 2048, 5


def measure() -> list[Result]:
    """Return the ratios of the sampler, for several networks and certificates."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [
            _ratio(f"sampling {name}, {readers}", network, shape, draws, rounds, readings)
            for name, network, shape, draws, rounds in networks()
            for readers, readings in certificates(draws).items()
        ]
    finally:
        torch.set_num_threads(threads)


def _ratio(
    name: str,
    network: nn.Module,
    shape: tuple[int, int, int, int],
    draws: int,
    rounds: int,
    readings: tuple[Certificate, ...],
) -> Result:
    encoder = Encoder(network, mean=0.0, std=1.0, name=name)
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    ready = torch.rand(block_size(x), *shape[1:], generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        own = encoder(x)
    clean = own.std() * torch.randn(POPULATION, own.shape[1], generator=torch.Generator().manual_seed(2))
    clean[: len(x)] = own
    ids = tuple(str(number) for number in range(len(x)))
    shard = Shard(encoder, x, torch.arange(len(x)), Rng(0, ids=ids), clean)
    sampler, floors = Smoothed(0.1, readings), []
    ratios: list[float] = []
    for _ in range(rounds + 1):
        began = process_time()
        with torch.no_grad():
            for _ in range(len(x) * draws // len(ready)):
                encoder(ready)
        floors.append(process_time() - began)
        before, began = encoder.passes.forward, process_time()
        sampler.run(shard)
        ratios.append((process_time() - began) / floors[-1])
        if encoder.passes.forward - before != len(x) * draws:
            raise RuntimeError(f"expected {len(x) * draws} draws, got {encoder.passes.forward - before}")
    note = (
        f"{rounds} rounds of {len(x)} x {draws} draws, least {min(ratios[1:]):.3f}, floor "
        f"{1e6 * median(floors) / draws / len(x):.0f} µs per draw"
    )
    return from_rounds(name, ratios[1:], TARGET, note)  # the first round warms up


def short() -> list[Result]:
    """Return the ratios of pairs on the small networks, of fewer rounds."""
    return [
        _ratio(f"sampling {name}, pairs", network, shape, draws, 2, certificates(draws)["pairs"])
        for name, network, shape, draws, _ in networks()
        if name.startswith("CNN")
    ]


if __name__ == "__main__":
    report(measure, __doc__)
