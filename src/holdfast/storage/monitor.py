"""`monitor.json`, typed: what a monitor saw along a training, made by `holdfast train`, printed, written as JSON."""

from holdfast.storage.entry import Count, Entry, Number, Spec
from holdfast.storage.record import FluctuationEntry


class LookEntry(Entry, frozen=True, kw_only=True):
    """What was seen at one step: values by name, None where there is none, and a sentence for all that failed."""

    step: Count
    values: dict[str, Number | None]
    failures: list[str]


class MonitorRecord(Entry, frozen=True, kw_only=True):
    """What a monitor saw.

    Attributes:
        measures: what was asked.
        images: how many were asked about.
        looks: in the order of the training.
        fluctuation: by how much accuracies fluctuated from one look to the next, of measures that say which images are
            right.
    """

    measures: list[Spec]
    images: Count
    looks: list[LookEntry]
    fluctuation: dict[str, FluctuationEntry]
