"""What an audit is expected to take: costs of its parts, of each encoder, and of all of it."""

from dataclasses import asdict, dataclass
from typing import Any

from holdfast.auditing.estimate.calibration import UnitTimes
from holdfast.core import Passes
from holdfast.core.encoder import BOUND


@dataclass(frozen=True)
class Cost:
    """What one part of an audit is expected to take on one worker.

    Attributes:
        title: the part, in a few words.
        images: how many images (or rows) it sees.
        passes: encoder passes; the most where `at_most`.
        seconds: expected time.
        low: two standard errors below, by the rounds of the rehearsal; says nothing of what else the machine will do.
        high: two above.
        how: what the time is taken from.
        serves: measures and checks that read it.
        at_most: whether it may end before it has made all passes.
        at_least: whether the times are lower bounds: its rehearsal was stopped before anything of it was done.
    """

    title: str
    images: int
    passes: Passes
    seconds: float
    low: float
    high: float
    how: str
    serves: tuple[str, ...] = ()
    at_most: bool = False
    at_least: bool = False


@dataclass(frozen=True)
class EncoderForecast:
    """What the audit of one encoder is expected to take.

    Attributes:
        name: the encoder.
        error: why it could not be opened or does not run; the rest is empty then.
        batch_size: images per encoder pass.
        dim: of the representation.
        shards: files that the audit will write of observations.
        stored: how many of them are in the run folder already; their time is not taken off.
        units: times of single passes.
        observations: what is observed.
        once: what is done once, before.
        scores: what comparing representations takes, measure by measure, where it takes long enough to tell.
        reading: reading and converting images, as far as an accelerator's passes do not hide it.
        storing: writing what was observed, and reading it back.
        kept: bytes of what was observed, which stays in memory.
        memory: bytes at the peak, in the process of one worker.
        device_memory: the same on the accelerator; None on a CPU.
    """

    name: str
    error: str | None = None
    batch_size: int = 0
    dim: int = 0
    shards: int = 0
    stored: int = 0
    units: UnitTimes | None = None
    observations: tuple[Cost, ...] = ()
    once: tuple[Cost, ...] = ()
    scores: tuple[Cost, ...] = ()
    reading: Cost | None = None
    storing: Cost | None = None
    kept: int = 0
    memory: int = 0
    device_memory: int | None = None

    @property
    def passes(self) -> Passes:
        """All encoder passes; the most where some observations may end earlier."""
        return sum((cost.passes for cost in self.observations), Passes())

    @property
    def at_most(self) -> bool:
        """Whether some observations may end earlier."""
        return any(cost.at_most for cost in self.observations)

    @property
    def at_least(self) -> bool:
        """Whether the expected time is a lower bound, because that of some observations is."""
        return any(cost.at_least for cost in self.observations)

    def seconds(self, workers: int = 1) -> tuple[float, float, float]:
        """Return the expected time and its range; of a sum, the sums of its parts. Observations alone are divided."""
        alone = (*self.once, *self.scores)
        shared = [*self.observations, *filter(None, [self.reading, self.storing])]
        return tuple(
            sum(getattr(cost, name) for cost in shared) / workers + sum(getattr(cost, name) for cost in alone)
            for name in ("seconds", "low", "high")
        )  # pyright: ignore[reportReturnType]


@dataclass(frozen=True)
class Forecast:
    """What an audit is expected to take.

    Attributes:
        encoders: one after the other.
        images: size of the population.
        attacked: how many of them are attacked.
        workers: how many processes observe.
        calibration: seconds that the rehearsal took.
        folder: the run folder.
        device: where encoders run.
    """

    encoders: tuple[EncoderForecast, ...]
    images: int
    attacked: int
    workers: int
    calibration: float
    folder: str
    device: str

    @property
    def passes(self) -> Passes:
        """Of all encoders."""
        return sum((one.passes for one in self.encoders), Passes())

    @property
    def seconds(self) -> tuple[float, float, float]:
        """Expected time of all encoders, and its range."""
        each = [one.seconds(self.workers) for one in self.encoders]
        return tuple(map(sum, zip(*each, strict=True))) if each else (0.0, 0.0, 0.0)  # pyright: ignore[reportReturnType]

    @property
    def at_least(self) -> bool:
        """Whether the expected time is a lower bound."""
        return any(one.at_least for one in self.encoders)

    @property
    def memory(self) -> int:
        """Bytes at the peak, of all workers together."""
        return self.workers * max((one.memory for one in self.encoders), default=0)


def as_data(found: Forecast) -> dict[str, Any]:
    """Return a forecast as JSON data."""
    known = any(one.error is None for one in found.encoders)  # else a sum of nothing would look like an estimate
    seconds = dict(zip(("expected", "low", "high"), found.seconds, strict=True))
    return {
        "images": found.images,
        "attacked": found.attacked,
        "device": found.device,
        "workers": found.workers,
        "folder": found.folder,
        "calibration_seconds": found.calibration,
        "bound": BOUND,
        "passes": _passes(found.passes),
        "seconds": seconds if known else None,
        "at_least": found.at_least,
        "memory_bytes": found.memory if known else None,
        "encoders": [_encoder_data(one, found.workers) for one in found.encoders],
    }


def _encoder_data(one: EncoderForecast, workers: int) -> dict[str, Any]:
    kinds = {"observation": one.observations, "once": one.once, "scores": one.scores}
    kinds |= {"reading": (one.reading,) if one.reading else (), "storing": (one.storing,) if one.storing else ()}
    parts = [{"kind": kind, **asdict(cost), "passes": _passes(cost.passes)} for kind in kinds for cost in kinds[kind]]
    return {
        "name": one.name,
        "error": one.error,
        "batch_size": one.batch_size,
        "dim": one.dim,
        "shards": one.shards,
        "stored": one.stored,
        "passes": _passes(one.passes),
        "at_most": one.at_most,
        "at_least": one.at_least,
        "seconds": dict(zip(("expected", "low", "high"), one.seconds(workers), strict=True)),
        "kept_bytes": one.kept,
        "memory_bytes": one.memory,
        "device_memory_bytes": one.device_memory,
        "unit_seconds": None if one.units is None else one.units.means(),
        "parts": parts,
    }


def _passes(passes: Passes) -> dict[str, int]:
    return {"forward": passes.forward, "backward": passes.backward, "bounds": passes.bounds, "work": passes.work}
