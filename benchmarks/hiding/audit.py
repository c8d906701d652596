"""What an audit says of an encoder, as `quick` asks it, on the images of its family."""

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from benchmarks.hiding.family import Family
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.run import run_audit
from holdfast.core import HoldfastError
from holdfast.storage.record import Record
from holdfast.storage.standing import SOUND

RADIUS, ACCURACY = "breaking_radius: median", "nearest_neighbour_accuracy: worst found"
"""The numbers that are compared with the truth."""


@dataclass(frozen=True)
class Number:
    """A number of an audit.

    Attributes:
        value: it; None: there is none.
        low: the lower end of its interval.
        high: the upper end.
        standing: "sound", a bound or "void", see `holdfast.storage.standing`.
        because: the failed checks that make it so.
    """

    value: float | None
    low: float | None
    high: float | None
    standing: str
    because: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether it is given as it is, with both ends of its interval."""
        return self.standing == SOUND and self.value is not None


@dataclass(frozen=True)
class Audit:
    """An audit.

    Attributes:
        numbers: by measure and score.
        failed: checks that failed.
        warned: checks that warned.
        errors: of measures, or why there is no audit at all.
        passes: forward and backward ones.
        seconds: it took so long.
    """

    numbers: dict[str, Number]
    failed: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    passes: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    @classmethod
    def read(cls, data: dict[str, Any]) -> "Audit":
        """Return what `as_json` gave."""
        numbers = {
            name: Number(**{**entry, "because": tuple(entry["because"])}) for name, entry in data["numbers"].items()
        }
        lists = {name: tuple(data[name]) for name in ("failed", "warned", "errors")}
        return cls(numbers, **lists, passes=data["passes"], seconds=data["seconds"])


def audit(network: nn.Module, family: Family) -> Audit:
    """Return what an audit says of a network.

    Raises:
        RuntimeError: an audit of other images than the family's, or in another order.
    """
    encoder, name = family.encoder_of(network), "encoder"
    plan = make_plan(AuditRequest(
        (name,), family.located(family.data), profile="quick", eps=family.eps, images=family.images,
        attacked=family.attacked, budget="none", seed=family.seed,
    ))  # fmt: skip
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            record = run_audit(plan, Path(folder), encoders={name: encoder})
        except HoldfastError as error:
            return Audit({}, errors=(str(error),))
        _check_same_images(Path(folder) / record.data.table, family)
    return read(record)


def read(record: Record) -> Audit:
    """Return what a record says of its first encoder."""
    row = record.encoders[0]
    numbers = {
        f"{name}: {key}": Number(score.value, score.low, score.high, score.standing, score.because)
        for name, measure in row.measures.items()
        for key, score in measure.scores.items()
    }
    errors = [row.error, *(measure.error for measure in row.measures.values())]
    statuses = {name: check.status for name, check in row.checks.items()}
    return Audit(
        numbers,
        tuple(name for name, status in statuses.items() if status == "fail"),
        tuple(name for name, status in statuses.items() if status == "warn"),
        tuple(dict.fromkeys(str(error) for error in errors if error)),
        0 if row.passes is None else row.passes.forward + row.passes.backward,
    )


def _check_same_images(table: Path, family: Family) -> None:
    import pyarrow.parquet as parquet

    ids = [row["id"] for row in parquet.read_table(table).to_pylist()]
    if ids != list(family.chosen.ids):
        raise RuntimeError("expected an audit of the same images in the same order, got others")
