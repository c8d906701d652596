"""Draws of a noise: one stream per image, read by all questions about the same noise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Failure, Noise, Observation, Passes, Shard
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.estimators.shared.draws import Draws, looks
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.shared.noisy import OfNoise, draw_noisy_images, noise_of, spans, values, wrong
from holdfast.parts.observations.worst_noise import WorstNoise

UNDRAWN = -1


@dataclass(frozen=True)
class Sampled(OfNoise):
    """Which draws of a noise fail, as `FAILURE.failed` [M, most]: 1, 0, or -1 where a draw was not needed.

    Also `FAILURE.wrong` [M]: whether the image fails without a disturbance. Every question reads an image's draws from
    the first one on and stops when it knows its answer, so company changes nothing for it.

    Attributes:
        asks: (failure, how many draws) pairs.
    """

    asks: tuple[tuple[Failure, Draws], ...] = ((Nearest(), Counting()),)

    @property
    @override
    def title(self) -> str:
        return f"draws: {self.noise.title}"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Those of all questions, each once."""
        return tuple(dict.fromkeys(failure for failure, _ in self.asks))

    def key(self) -> Observation:
        """Questions and images do not change an image's draws."""
        return replace(self, asks=(), first=None)

    def join(self, twin: Observation) -> Observation:
        """Let all questions of both read one stream."""
        # `super` joins how many images, this how many questions
        joined = super().join(twin)
        assert isinstance(joined, Sampled)  # equal keys
        assert isinstance(twin, Sampled)
        return replace(joined, asks=tuple(dict.fromkeys((*self.asks, *twin.asks))))

    def broke(self, failure: Failure, ball: Ball, results: Mapping[str, Tensor]) -> Bool[Tensor, "images"] | None:
        """Return which images failed for a draw, where all draws lie in the ball."""
        own = self.noise.ball if isinstance(self.noise, (Noise, WorstNoise)) else None
        if own is None or not ball.contains(own) or failure not in self.failures:
            return None
        return (results[f"{failure}.failed"] == 1).any(1)

    @property
    def adaptive(self) -> bool:
        """Whether a question stops when it knows its answer."""
        return any(rule.adaptive for _, rule in self.asks)

    @property
    def passes(self) -> Passes:
        """The most that the greediest question may need; those that stop early cost less."""
        return Passes(forward=max((rule.most for _, rule in self.asks), default=0))

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Draw for the images of one shard, until every question is answered for every image."""
        # one stream of draws for all questions; UNDRAWN where an image had enough
        failures = self.failures
        events = [failure.bind(shard) for failure in failures]
        noise, most = noise_of(shard, self.noise), max(rule.most for _, rule in self.asks)
        outcomes = torch.full((len(failures), len(shard.x), most), UNDRAWN, dtype=torch.int8)
        active = torch.arange(len(shard.x))
        # block by block: draw for the images that are active, and note which draws fail
        for start, stop in looks(most):
            for rows, first, last in spans(shard, active.tolist(), start, stop):
                with torch.no_grad():
                    event_values = values(shard, events, rows, draw_noisy_images(shard, noise, rows, first, last))
                for number, value in enumerate(event_values):
                    outcomes[number, rows, first:last] = (value > 0).to(outcomes.dtype)
            # after each block an image stays active as long as some question needs more of it
            open_ = torch.zeros(len(active), dtype=torch.bool)
            for failure, rule in self.asks:
                failed = count(outcomes[failures.index(failure), active], stop)
                open_ |= (stop < rule.most) & ~rule.should_stop(failed, stop)
            active = active[open_]
            if not len(active):
                break
        results = {f"{failure}.failed": outcomes[number] for number, failure in enumerate(failures)}
        return results | {
            f"{failure}.wrong": wrong(shard, event) for failure, event in zip(failures, events, strict=True)
        }


def count(failed: Int[Tensor, "images most"], draws: int) -> Int[Tensor, "images"]:
    """Return how many of the first `draws` draws of each image failed."""
    # Draws that were not made, -1, count as none
    return failed[:, :draws].clamp_min(0).long().sum(1)
