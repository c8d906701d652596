"""The weights that a hardening keeps: along the training, those under which images may move farthest."""

import math
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.core import Ball, Encoder, registry
from holdfast.sources.data import ImageSet
from holdfast.sources.encoders.shared.copies import copy_encoder, save
from holdfast.sources.encoders.shared.equip import load
from holdfast.storage.entry import as_json
from holdfast.storage.hardening import LookAtHardening
from holdfast.storage.run_folder import Store
from holdfast.training import checkpoint
from holdfast.workflows.harden.outcome import drift
from holdfast.workflows.monitor.snapshot import look

EVERY = 100
"""Steps between two looks: each costs about as much as nine steps."""

ATTACKED, STEPS = 64, 50
"""Images of a look that are attacked, and steps of the search for the smallest change that breaks them."""

EQUAL = 0.95
"""Share of the largest radius from which on a look counts as equal to it: radii are medians of few images."""

LOOKS, WEIGHTS = "looks.json", "looks"


class Keeper:
    """Looks at the encoder along a hardening, and keeps the weights of the look that is best so far.

    Best is the largest breaking radius, on images that are neither learned from nor audited; of looks whose radius is
    at least `EQUAL` of that, the last one, for the rate falls to 0 and clean representations settle. Every look is in a
    file of the run folder, so a training that resumes goes on with what was seen.

    Args:
        store: the run folder.
        start: the encoder before.
        images: held out for this.
        ball: in which it is hardened; what is searched for is the smallest change in its norm.
        last: keep the last look whatever the others are, of a training whose ball grows along it.
        patience: looks in a row without a larger radius after which the training ends; None: it goes to its end.
        device: where to look.
    """

    every = EVERY

    def __init__(
        self,
        store: Store,
        start: Encoder,
        images: ImageSet,
        ball: Ball,
        *,
        patience: int | None = None,
        last: bool = False,
        device: str = "cpu",
    ):
        self._store, self._start, self._images, self._device = store, start, images, device
        self._patience, self._last = patience, last
        self._measure = registry.part("measures", "breaking_radius", ball=ball, certified=0, steps=STEPS)
        # Without a checkpoint the training begins anew: what an earlier one saw may be of another encoder
        seen = (store.read_json(LOOKS) or []) if store.exists(checkpoint.NAME) else []
        self.looks: list[LookAtHardening] = msgspec.convert(seen, list[LookAtHardening])

    def __call__(self, encoder: Encoder, step: int) -> dict[str, float]:
        """Return the radius and the cosine of a look, and keep its weights where it may come out as the best."""
        if not self.looks:
            self.looks = [self._look(self._start, 0)]  # what there was before
        now = self._look(encoder, step)
        # a training that went on from a checkpoint sees some steps again
        self.looks = [look for look in self.looks if look.step < step] + [now]
        self._store.write(f"{WEIGHTS}/{step:08d}.safetensors", lambda path: save(encoder, path, {}))
        self._store.write_json(LOOKS, as_json(self.looks))
        # the radius of the best only grows: looks that are below it now never come out
        largest = max(_size(seen) for seen in self.looks[1:])
        for old in self.looks[1:]:
            if (self._last and old is not now) or _size(old) < EQUAL * largest:
                with suppress(FileNotFoundError):
                    self._weights(old).unlink()
        found = {"breaking_radius": now.radius, "breaking_radius.low": now.low, "breaking_radius.high": now.high}
        return {name: value for name, value in found.items() if value is not None} | {"cosine": now.cosine}

    def _look(self, encoder: Encoder, step: int) -> LookAtHardening:
        # The audit's own measure, so that what chose the weights can be asked again
        asked = {"attacked": min(ATTACKED, len(self._images)), "device": self._device}
        values = look(encoder, self._images, (self._measure,), **asked).values
        ends = [values.get(f"breaking_radius{end}", math.nan) for end in ("", ".low", ".high")]
        radius, low, high = (None if math.isnan(value) else value for value in ends)
        cosine = drift(self._start, encoder, self._images, self._device).cosine.value
        assert cosine is not None  # a mean over images, of which there are some
        return LookAtHardening(step=step, radius=radius, low=low, high=high, cosine=cosine)

    def _weights(self, seen: LookAtHardening) -> Path:
        return self._store.folder / WEIGHTS / f"{seen.step:08d}.safetensors"

    @property
    def best(self) -> LookAtHardening:
        """The look whose weights are kept; never that of the encoder before."""
        # Those of the others are gone, see `__call__`; of the encoder before there never were any
        return [seen for seen in self.looks if self._weights(seen).exists()][-1]

    @property
    def is_over(self) -> bool:
        """Whether patience is at its end."""
        if self._patience is None or not self.looks:
            return False
        # Looks since the one with the largest radius, the encoder before among them
        radii = [_size(seen) for seen in self.looks]
        return len(radii) - 1 - radii.index(max(radii)) >= self._patience

    def choose(self, last: Encoder) -> Encoder:
        """Return the encoder with the weights that are kept, instead of those of the last step."""
        chosen = copy_encoder(last)
        load(chosen.module.get_submodule(chosen.root), str(self._weights(self.best)))
        return chosen


def _size(seen: LookAtHardening) -> float:
    """Return the radius of a look; 0 where there is none, as where the encoder does not tell the images apart."""
    return seen.radius or 0.0
