"""One look at an encoder that is being trained, through the audit's own machinery; the network is left as it was."""

import math
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.auditing.balls import NORM, shape_of, usual_ball
from holdfast.auditing.execute import INLINE, execute, results_of
from holdfast.auditing.images import AuditImages
from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import PreparedAudit
from holdfast.config.overrides import Change, apply_changes
from holdfast.core import Encoder, ImageSource, Measure, Table
from holdfast.core.precision import tf32
from holdfast.runtime.errors import BadValue, Conflict, Failed, NotEnough
from holdfast.runtime.network import copy_of, unwrap
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.encoders.shared.copies import copy_encoder
from holdfast.storage.record import MeasureEntry
from holdfast.storage.run_folder import Store

Pictures = str | Path | ImageSource | np.ndarray | Tensor | ImageSet
"""Images: a data spec, a path, a source, an array [N, ...], or a set that is open already."""


@dataclass(frozen=True)
class Look:
    """What was seen of an encoder.

    Attributes:
        values: every score by a name that a log can take: `overlap_risk` with `overlap_risk.low` and `.high`, the ends
            of its interval; further scores of a measure as `probe_accuracy/class_3`. NaN: undefined.
        failures: a sentence for every measure that failed or found nothing to certify.
        tables: of the measures that succeeded, by name; one row per image.
    """

    values: dict[str, float]
    failures: tuple[str, ...]
    tables: dict[str, Table]


def monitor(
    encoder: nn.Module,
    data: Pictures,
    measures: Sequence[Change],
    *,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    train: Pictures | None = None,
    images: int | None = None,
    attacked: int | None = None,
    seed: int = 0,
    device: str | None = None,
    batch_size: int | None = None,
) -> dict[str, float]:
    """Return chosen measures of a network: values and the ends of their intervals; its arguments are those of `look`.

    Raises:
        HoldfastError: a measure that fails, all of them in one line; see `look` for what is left then.
    """
    snapshot = look(
        encoder,
        data,
        measures,
        mean=mean,
        std=std,
        train=train,
        images=images,
        attacked=attacked,
        seed=seed,
        device=device,
        batch_size=batch_size,
    )
    if snapshot.failures:
        raise Failed("; ".join(snapshot.failures))
    return snapshot.values


def look(
    encoder: nn.Module,
    data: Pictures,
    measures: Sequence[Change],
    *,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    train: Pictures | None = None,
    images: int | None = None,
    attacked: int | None = None,
    seed: int = 0,
    device: str | None = None,
    batch_size: int | None = None,
) -> Look:
    """Ask measures of a copy of a network; the network itself, its gradients and all random numbers stay as they are.

    Args:
        encoder: an `Encoder`, or any network that maps normalised images [B, C, H, W] to representations [B, D].
        data: images to ask about.
        measures: what to ask, see `holdfast list measures`.
        mean: per-channel mean that the network's preprocessing subtracts, of [0, 1] pixels; not for an `Encoder`.
        std: per-channel standard deviation that it divides by.
        train: labelled images that probes learn from; None: those of `data` that are not attacked.
        images: how many of `data`; None: all.
        attacked: how many of these are attacked or tested; None: all, or half of them where probes need the others.
        seed: the one seed of what is drawn.
        device: where to look; None: where the network is.
        batch_size: images per pass; None: by the image's size.

    Raises:
        HoldfastError: images that cannot be read, a network that cannot be copied, mean and std absent or superfluous.
    """
    with isolate_global_state():
        # A copy of the network, the images, and the measures in the ball that is usual for these
        network = freeze_copy(encoder, mean, std)
        device = device or str(network.device)
        population = open_pictures(data, images, seed)
        questions = measures_of(measures, population)
        bank = None if train is None else open_pictures(train, None, seed)
        if bank is not None:
            available = len(bank)
            if (left_out := bank.leave_out(population)) and len(bank) < 2:
                raise NotEnough(
                    f"train: expected other images than those that are looked at, got {left_out} of {available} that "
                    f"are among them (different pictures: {population.different})"
                )
            population.number_classes_as(bank)

        # An audit of it, in a folder that does not last
        learns = any(measure.learns for measure in questions)
        plan = Plan(
            ("encoder",),
            str(population),
            questions,
            images=len(population),
            attacked=attacked,
            seed=seed,
            batch_size=batch_size,
            device=device,
            train=None if bank is None else str(bank),
            spare=learns and bank is None and attacked is None,
        )
        with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
            store = Store(Path(folder))
            audit = PreparedAudit(
                plan,
                (network.name,),
                ("encoder",),
                AuditImages(population, bank),
                store,
                encoders={"encoder": network},
            )
            (result,) = results_of(audit, execute(audit, INLINE))
            tables = {name: store.read_table(file) for name, (file, _) in result.scored.items()}

    # What came out, by names that a log can take
    failures, entry = list(result.failures), result.entry
    failures += [f"{name}: {m.not_certified}" for name, m in entry.measures.items() if m.not_certified]
    return Look(_flatten_scores(entry.measures), tuple(failures), tables)


def measures_of(names: Sequence[Change], images: ImageSet | None = None) -> tuple[Measure, ...]:
    """Return measures from their names, or tables of a name and fields; the rest is as their classes have it.

    Args:
        names: of the measures.
        images: that they are asked about; the ball is the one that is usual for these. None: nothing is known of them.

    Raises:
        HoldfastError: none, or what nobody knows.
    """
    if not names:
        raise BadValue("measures: expected at least one, got none; see holdfast list measures")
    return apply_changes((), names, usual_ball(NORM, None if images is None else shape_of(images)))


def open_pictures(data: Pictures, images: int | None, seed: int) -> ImageSet:
    """Return the images of a set, or so many of those of a source, an array or a spec."""
    return data if isinstance(data, ImageSet) else open_images(data, images=images, seed=seed)


def freeze_copy(
    network: nn.Module, mean: float | Sequence[float] | None = None, std: float | Sequence[float] | None = None
) -> Encoder:
    """Return a frozen encoder with a copy of a network.

    Raises:
        HoldfastError: a network that cannot be copied, mean and std absent or superfluous.
    """
    own = isinstance(network, Encoder)
    if own != (mean is None) or own != (std is None):
        raise Conflict(
            "expected mean and std for a bare network (0 and 1 for none), and none for an Encoder, which has its own; "
            f"got mean={mean}, std={std} for {type(network).__name__}"
        )
    twin = copy_of(network.module if isinstance(network, Encoder) else unwrap(network))
    for value in twin.parameters():
        value.grad = None
    if not isinstance(network, Encoder):
        assert mean is not None
        assert std is not None
        frozen = Encoder(twin, mean=mean, std=std, name=type(network).__name__)
        return frozen.to(next((value.device for value in twin.parameters()), torch.device("cpu")))
    return copy_encoder(network, twin)


@contextmanager
def isolate_global_state() -> Iterator[None]:
    """Look inside as if nobody trained: with gradients, in full precision; all random numbers go on as before."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count()))
    try:
        with (
            torch.random.fork_rng(devices=devices),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
            tf32(False) if devices else nullcontext(),  # whatever the process allows its own products
        ):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _flatten_scores(measures: Mapping[str, MeasureEntry]) -> dict[str, float]:
    """Return all scores by names that logs can take, headlines with the ends of their intervals."""
    values: dict[str, float] = {}
    for name, entry in measures.items():
        for title, score in entry.scores.items():
            if title != entry.headline:
                values[_plain(f"{name}/{title}")] = _number(score.value)
                continue
            values[_plain(name)] = _number(score.value)
            ends = {"low": score.low, "high": score.high}
            values |= {f"{_plain(name)}.{end}": _number(value) for end, value in ends.items() if value is not None}
    return values


def _plain(name: str) -> str:
    """Return a name of letters, digits and `_ . / -` only."""
    return re.sub(r"[^\w./-]+", "_", name).strip("_")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
