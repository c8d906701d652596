"""Passes of the rare-event estimator, as a share of those that plain draws take for the same error.

    python -m benchmarks.rare_events [--json]

k of n plain draws of an event of probability p have the relative variance (1 - p) / (p n). The estimator is run many
times; its mean square error about the truth says how many plain draws would have done as well. Truth: a closed form for
a linear encoder, whose failures fill a half-space; for a small convolutional encoder the mean of all runs, which is
itself compared with two million plain draws.
"""

import math

import torch
from scipy import stats
from torch import Tensor, nn

from benchmarks.result import Result, report, spread
from holdfast.core import Encoder, Event, Noise, Rng, Shard
from holdfast.numerics.statistics import clopper_pearson
from holdfast.parts.estimators.shared.climb import Value
from holdfast.parts.estimators.splitting import Splitting
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.truncated_gaussian import TruncatedGaussian
from holdfast.parts.threats.uniform import Uniform
from holdfast.sources.data.digits import Digits
from holdfast.sources.encoders import open_encoder

TARGET = 0.01
ESTIMATOR = Splitting(particles=200, kill=0.3, moves=3)
RUNS, ROUNDS = 300, 3
"""Estimates, and groups of them whose errors show how well the mean square error of all is known."""
PLAIN = 2_000_000
BLOCK = 20_000
DIGIT, RADIUS = 12, 0.09
"""An image of scikit-learn's digits and an ℓ∞ radius at which about one draw in 100,000 fails."""


def failures(encoder: Encoder, noise: Noise, event: Event, x: Tensor) -> Value:
    """Return how far draws for one image are from failure, whatever the run they belong to."""

    def value(z: Tensor, runs: Tensor) -> Tensor:
        parts = [encoder(noise.push(x, part[None])[0]) for part in z.split(BLOCK)]
        return event(torch.cat(parts)[None], torch.zeros(1, dtype=torch.long))[0]

    return value


def linear(p: float, shape: tuple[int, int, int] = (3, 8, 8)) -> tuple[Value, int]:
    """Return a linear encoder's image that a Gaussian takes across the middle between two representations, and d.

    The noise is cut off at eight standard deviations, where nothing is left.
    """
    noise = TruncatedGaussian(Linf(0.4), scale=1 / 8)
    d = math.prod(shape)
    network = nn.Sequential(nn.Flatten(), nn.Linear(d, 10))
    weights = torch.randn(10, d, generator=torch.Generator().manual_seed(0)) / d**0.5
    network[1].weight.data, network[1].bias.data = weights, torch.zeros(10)
    encoder = Encoder(network, mean=0.0, std=1.0, name="linear")
    x = torch.full((1, *shape), 0.5)
    with torch.no_grad():
        own = encoder(x)
    reach = 2 * -float(stats.norm.ppf(p)) * 0.05 * float(weights[0].norm())
    clean = torch.cat([own, own + reach * torch.eye(10)[:1]])
    event = Nearest().bind(Shard(encoder, x, torch.arange(1), Rng(0, ids=("a",)), clean))
    return failures(encoder, noise, event, x), d


def digits() -> tuple[Value, int]:
    """Return a digit that uniform noise takes for another one of 600, and d."""
    source, noise = Digits(), Uniform(Linf(RADIUS))
    x = torch.stack([source.load(index) for index in range(len(source))])
    encoder = open_encoder("zoo:digits-simclr")
    with torch.no_grad():
        clean = encoder(x)
    own = x[DIGIT : DIGIT + 1]
    event = Nearest().bind(Shard(encoder, own, torch.tensor([DIGIT]), Rng(0, ids=("a",)), clean))
    return failures(encoder, noise, event, own), own.numel()


def estimates(value: Value, d: int) -> dict[str, Tensor]:
    """Return what many runs of the estimator give."""
    with torch.no_grad():
        return ESTIMATOR.estimate(value, d, Rng(0, ids=tuple(str(run) for run in range(RUNS))))


def share(name: str, runs: dict[str, Tensor], truth: float) -> Result:
    """Return the passes of the estimator, divided by those of plain draws with the same mean square error."""
    errors = (runs["probability"] / truth - 1).square()
    passes, plain = float(runs["passes"].mean()), (1 - truth) / truth / float(errors.mean())
    lowest, highest = spread([passes * float(group.mean()) * truth / (1 - truth) for group in errors.chunk(ROUNDS)])
    covered = float(((runs["low"] <= truth) & (truth <= runs["high"])).double().mean())
    error, mean = float(errors.mean()) ** 0.5, float(runs["probability"].mean()) / truth
    note = (
        f"p = {truth:.2e}, relative error {100 * error:.0f} %, mean {mean:.3f} p, interval covers "
        f"{100 * covered:.0f} %; {passes:.0f} passes, {plain:.1e} plain ones"
    )
    return Result(f"rare events, {name}", passes / plain, lowest, "x", TARGET, note, highest=highest, rounds=ROUNDS)


def plain_draws(value: Value, d: int) -> int:
    """Return how many of `PLAIN` plain draws fail."""
    generator, failed = torch.Generator().manual_seed(1), 0
    with torch.no_grad():
        for _ in range(PLAIN // BLOCK):
            z = torch.randn(BLOCK, d, generator=generator)
            failed += int((value(z, torch.zeros(BLOCK, dtype=torch.long)) > 0).sum())
    return failed


def measure() -> list[Result]:
    """Return the shares for both encoders, and how far splitting and counting are apart."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = [share("linear encoder, 192 pixels", estimates(*linear(1e-5)), 1e-5)]
        value, d = digits()
        runs = estimates(value, d)
        truth = float(runs["probability"].mean())
        results.append(share("convolutional encoder of digits", runs, truth))
        failed = plain_draws(value, d)
        low, high = (end * PLAIN for end in clopper_pearson(failed, PLAIN))
        note = f"{failed} of {PLAIN} plain draws failed (95 %: {low:.0f} to {high:.0f}), expected {truth * PLAIN:.1f}"
        results.append(Result("rare events, splitting / counting", truth * PLAIN / failed, None, "x", None, note))
        return results
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    report(measure, __doc__)
