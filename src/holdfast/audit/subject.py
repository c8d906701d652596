"""An encoder being observed: runs observations shard by shard, stores them, and hands them to measures."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from holdfast import registry
from holdfast.audit.store import Store, digest
from holdfast.core import Encoder, Head, HoldfastError, Images, Observation, Passes, Positions, Probe, Rng, Shard
from holdfast.data import ImageSet
from holdfast.measures._probe import head_of
from holdfast.observations.clean import Clean

LAYOUT = 2
"""Version of what shard files hold; part of their key."""

Progress = Callable[[int], None]
"""Told how much work, in encoder passes, has been done (or was found stored)."""


@dataclass(frozen=True)
class Cost:
    """What one observation cost.

    Attributes:
        passes: encoder passes that were made, whether now or in an earlier run.
        predicted: what the plan had predicted.
        seconds: time they took.
        stored: how many shards were found stored.
    """

    passes: Passes
    predicted: Passes
    seconds: float
    stored: int


class AuditSubject:
    """One encoder with the images of an audit; see `holdfast.core.Subject`.

    Args:
        encoder: the encoder, on its device.
        images: the population, rendered for this encoder.
        attacked: how many images, the first ones, are attacked.
        seed: the seed of the run.
        batch_size: images per encoder pass and per shard file.
        device: where the encoder runs.
        store: where shards are kept; shards that are there already are not run again.
        progress: see `Progress`.
    """

    def __init__(
        self,
        encoder: Encoder,
        images: ImageSet,
        *,
        attacked: int,
        seed: int,
        batch_size: int,
        device: str,
        store: Store,
        progress: Progress = lambda passes: None,
    ):
        self.encoder, self.images, self.attacked, self.seed = encoder, images, attacked, seed
        self.batch_size, self._device, self._store, self._progress = batch_size, device, store, progress
        self._format = memory_format(encoder)
        self.encoder.to(memory_format=self._format)  # pyright: ignore[reportCallIssue] torch has no stub for it
        self._seen: dict[Observation, dict[str, Tensor]] = {}
        self.costs: dict[Observation, Cost] = {}
        self._heads: dict[Probe, Head] = {}
        self._fresh: bool | None = None  # whether stored shards are to be made anew; decided at the first one
        self._identity = [
            LAYOUT,
            version("holdfast"),
            encoder.refresh_fingerprint(),
            _described(encoder),
            images.fingerprint,
            str(images.asked),
            seed,
            batch_size,
            attacked,
        ]

    @property
    def population(self) -> int:
        """How many images there are."""
        return len(self.images)

    @property
    def ids(self) -> list[str]:
        """The id of every image."""
        return self.images.ids

    @property
    def labels(self) -> Int[Tensor, "population"] | None:
        """The class of every image; None where the source does not know them all."""
        labels = self.images.labels
        return None if labels is None else torch.tensor(labels)

    def batch(self, start: int, stop: int) -> Images:
        """Return images of the population on the encoder's device, in its memory format."""
        return self.images.batch(start, stop).to(self._device).contiguous(memory_format=self._format)

    def _still_answers(self, reps: Tensor) -> bool:
        """Whether the encoder still gives the stored representations: its code may have changed, its weights not."""
        before = self.encoder.passes
        with torch.no_grad():
            now = self.encoder(self.batch(0, min(2, len(reps)))).float().cpu()
        self.encoder.passes = before  # two passes that only a resumed audit makes
        return torch.allclose(now, reps[: len(now)], rtol=1e-3, atol=1e-3 * float(reps.abs().max()))

    def observe(self, observation: Observation) -> None:
        """Run an observation on all its images, or read what an earlier run stored."""
        total = observation.images(len(self.images), self.attacked)
        spec = registry.spec(observation)
        read = [self.images.labels_fingerprint] if observation.needs_labels else []
        folder = f"cache/{digest([self._identity, spec, *read, *files_read(spec)])}"
        shards: list[dict[str, Tensor]] = []
        passes, seconds, stored = Passes(), 0.0, 0
        for start, stop in self._spans(observation, total):
            name = f"{folder}/{start:07d}-{stop:07d}.safetensors"
            found = self._store.read_tensors(name) if self._fresh is not True else None
            if self._fresh is None:  # the first shard of the clean representations
                self._fresh = found is None or not self._still_answers(found[0]["reps"])
                found = None if self._fresh else found
            if found is None:
                self._run(observation, start, stop, name)
                found = self._store.read_tensors(name)
                assert found is not None
            else:
                stored += 1
                self._progress((observation.passes * (stop - start)).work)
            shards.append(found[0])
            passes += Passes(*(int(found[1][name]) for name in ("forward", "backward", "bounds")))
            seconds += float(found[1]["seconds"])
        rows = {} if observation.whole else {key: torch.cat([shard[key] for shard in shards]) for key in shards[0]}
        self._seen[observation.key()] = rows or shards[0]
        self.costs[observation] = Cost(passes, observation.passes * total, seconds, stored)

    def _spans(self, observation: Observation, total: int) -> list[tuple[int, int]]:
        """Return the first and the last (exclusive) image of every shard."""
        if observation.whole:
            return [(self.population - total, self.population)]
        return [(start, min(start + self.batch_size, total)) for start in range(0, total, self.batch_size)]

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what an observation saw, all shards together; only its own number of images."""
        seen = self._seen.get(observation.key())
        if seen is None:
            raise HoldfastError(
                f"{registry.part_name(observation)} was not observed: it failed, or no measure names it first"
            )
        if observation.whole:
            return seen
        rows = observation.images(len(self.images), self.attacked)
        return {key: value if key.startswith("gallery.") else value[:rows] for key, value in seen.items()}

    def _run(self, observation: Observation, start: int, stop: int, name: str) -> None:
        began, before = time.perf_counter(), self.encoder.passes
        self.encoder.watch = self._progress
        try:
            seen = self._halving(observation, start, stop)
        finally:
            self.encoder.watch = None
        passes = self.encoder.passes - before
        spared = (observation.passes * (stop - start)).work - passes.work  # adaptive searches: predictions are limits
        if spared > 0:
            self._progress(spared)
        facts = {key: str(value) for key, value in asdict(passes).items()}
        self._store.write_tensors(name, seen, facts | {"seconds": f"{time.perf_counter() - began:.3f}"})

    def _halving(self, observation: Observation, start: int, stop: int) -> dict[str, Tensor]:
        """Run one shard; where the device runs out of memory, in two halves (whose passes alone are counted)."""
        before = self.encoder.passes
        try:
            return observation.run(self._shard(start, stop))
        except torch.OutOfMemoryError:
            if stop - start < 2 or observation.whole:
                raise
            self.encoder.passes = before
            middle = (start + stop) // 2
        first, second = self._halving(observation, start, middle), self._halving(observation, middle, stop)
        return {key: torch.cat([first[key], second[key]]) for key in first}

    def _shard(self, start: int, stop: int) -> Shard:
        clean = self._seen.get(Clean(), {}).get("reps")
        positions = torch.arange(start, stop)
        rng = Rng(self.seed, ids=tuple(self.images.ids[start:stop]))
        x, head = self.batch(start, stop), None if self.labels is None else self._head
        return Shard(self.encoder, x, positions, rng, clean, self._images_at, self.labels, head, self.read)

    def _head(self, probe: Probe) -> Head:
        if probe not in self._heads:
            self._heads[probe] = head_of(self, probe)
        return self._heads[probe]

    def _images_at(self, positions: Positions) -> Images:
        return torch.cat([self.batch(position, position + 1) for position in positions.tolist()])


def memory_format(encoder: Encoder) -> torch.memory_format:
    """Return channels_last for convolutional networks (a tenth faster or more), else the usual format."""
    convolutions = sum(isinstance(module, nn.Conv2d) for module in encoder.modules())
    return torch.channels_last if convolutions > 1 else torch.contiguous_format  # one: a transformer's patches


def files_read(spec: Any) -> list[str]:
    """Return the fingerprints of the files that a part is read from: heads, mixtures, whatever has a `path`."""
    if isinstance(spec, Mapping):
        path = spec.get("path")
        own = [Path(path)] if isinstance(path, str) and path else []
        mine = [hashlib.sha256(file.read_bytes()).hexdigest() for file in own if file.is_file()]
        return mine + [found for inner in spec.values() for found in files_read(inner)]
    return [found for inner in spec for found in files_read(inner)] if isinstance(spec, list) else []


def _described(encoder: Encoder) -> list[str]:
    """Return what, beside the weights, decides the representation."""
    facts = {key: str(value) for key, value in encoder.origin.items()}
    return [str(encoder.module), str(encoder.geometry), *(f"{key}={facts[key]}" for key in sorted(facts))]
