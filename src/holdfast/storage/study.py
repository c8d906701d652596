"""`study.json`, typed: what bad data cost encoders, made by `holdfast study`, shown by reports, written as JSON."""

from holdfast.numerics.statistics.score import Score
from holdfast.storage.entry import Count, Entry, Spec


class ColumnEntry(Entry, frozen=True, kw_only=True):
    """One version of the images to learn from; see `holdfast.workflows.study.plan.Column`."""

    title: str
    corruption: Spec | None
    data: str | None
    averaged: bool


class StudyEntry(Entry, frozen=True, kw_only=True):
    """What was asked; see `holdfast.workflows.study.plan.Study`.

    Attributes:
        methods: the recipe of each, by the name of its row.
        columns: the versions of the data, the original first.
        test: where the tested images come from.
        test_images: how many of them are tested; None: all.
        test_seed: which of them.
        seeds: of the trainings.
        probes: what learned from the representations.
        settings: how encoders were tested, in words.
    """

    methods: dict[str, Spec]
    columns: list[ColumnEntry]
    test: str
    test_images: Count | None
    test_seed: int
    seeds: list[int]
    probes: list[Spec]
    settings: dict[str, str]


class StudyRow(Entry, frozen=True, kw_only=True):
    """One method, judged by one probe in one setting: by column, means over images and trainings.

    Their intervals are about other images and, where there are several trainings, about other trainings too.

    Attributes:
        method: the name of the row.
        probe: what learned from the representations.
        setting: how encoders were tested.
        accuracy: by column, of those that could be tested.
        drop: Δ, the share of the original's accuracy that is lost; of no column where that could not be tested.
        average: Δ of the columns that are averaged; None where one of them could not be tested.
        problems: why a column could not be tested.
    """

    method: str
    probe: str
    setting: str
    accuracy: dict[str, Score]
    drop: dict[str, Score]
    average: Score | None
    problems: dict[str, str]


class StudyRecord(Entry, frozen=True, kw_only=True):
    """What a study found; `command` does it again."""

    command: str
    study: StudyEntry
    rows: list[StudyRow]
