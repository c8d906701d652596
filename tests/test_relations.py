"""Which measure predicts what: pairs, points and numbers, by hand and against SciPy."""

import math
from typing import Any

import pytest
from msgspec.structs import replace
from scipy import stats

from holdfast.auditing.relations import relations
from holdfast.storage.record import EncoderEntry, MeasureEntry
from json_records import encoder_entry, measure_entry
from report_fixture import make_score


def measure(value: float | None, needs_labels: bool, **corruptions: float | None) -> MeasureEntry:
    scores = {name: make_score(v) for name, v in corruptions.items()} | {"all": make_score(value)}
    return measure_entry(needs_labels=needs_labels, corruptions=list(corruptions), scores=scores, headline="all")


def encoder(name: str, free: float | None, labelled: float | None, **more: Any) -> EncoderEntry:
    return encoder_entry(name, measures={"free": measure(free, False), "labelled": measure(labelled, True)}, **more)


def test_over_encoders_it_is_scipys_correlation_of_headlines() -> None:
    x, y = [0.1, 0.4, 0.2, 0.9, 0.5], [1.0, 2.0, 1.5, 2.5, 2.4]
    (found,) = relations([encoder(str(i), a, b) for i, (a, b) in enumerate(zip(x, y, strict=True))])
    assert (found.over, found.encoder, found.first, found.second) == ("encoders", None, "free", "labelled")
    assert found.points == 5
    assert found.pearson.value == pytest.approx(stats.pearsonr(x, y)[0])
    assert found.spearman.value == pytest.approx(stats.spearmanr(x, y)[0])
    assert found.pearson.low < found.pearson.value < found.pearson.high


def test_what_is_missing_or_means_nothing_is_no_point() -> None:
    entries = [encoder(str(i), i / 10, i * i / 100) for i in range(4)]
    wild = [encoder("collapsed", 9.0, -9.0), encoder("failed", 9.0, -9.0, error="no"), encoder("none", None, 0.5)]
    (found,) = relations([*entries, *wild], {"collapsed"})
    assert found.points == 4
    assert found.spearman.value == 1
    failed = encoder("partly", 1.0, 1.0)
    nothing = replace(failed.measures["labelled"], scores={}, headline=None, error="no")
    failed = replace(failed, measures={**failed.measures, "labelled": nothing})
    assert relations([*entries, failed])[0].points == 4


def test_three_points_are_no_relation() -> None:
    entries = [encoder(str(i), i / 10, math.sin(i)) for i in range(4)]
    assert relations(entries[:3]) == []
    assert len(relations(entries)) == 1


def test_over_corruptions_points_are_those_that_both_look_at() -> None:
    free = measure(0.0, False, a=0.1, b=0.2, c=0.3, d=0.9, e=None, g=0.7)
    labelled = measure(0.0, True, b=0.4, a=0.1, c=0.5, f=0.0, e=0.2, g=0.6)
    entry = encoder_entry("it", measures={"free": free, "labelled": labelled})
    (found,) = relations([entry])
    assert (found.over, found.encoder, found.points) == ("corruptions", "it", 4)
    assert found.pearson.value == pytest.approx(stats.pearsonr([0.1, 0.2, 0.3, 0.7], [0.1, 0.4, 0.5, 0.6])[0])


def test_only_pairs_of_one_without_and_one_with_labels_are_related() -> None:
    entries = [encoder(str(i), i / 10, i * i / 100) for i in range(4)]
    more = [replace(e, measures={**e.measures, "free too": measure(1 - i / 5, False)}) for i, e in enumerate(entries)]
    found = relations(more)
    assert [(r.first, r.second) for r in found] == [("free", "labelled"), ("free too", "labelled")]
    assert found[1].pearson.value < 0
