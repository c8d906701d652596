"""Verdicts against a baseline: by hand, of bounds, corrected, and how many images would tell."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from msgspec import structs

from holdfast.comparison.records import Run
from holdfast.comparison.regression import regressions
from holdfast.core import Score, registry
from holdfast.numerics import statistics
from holdfast.numerics.statistics import clopper_pearson, mean
from holdfast.numerics.statistics.planning import times_needed
from holdfast.report.documents.gate import against, sentence
from holdfast.runtime.errors import BadData, BadValue, Failed, Mismatch, UnknownName
from holdfast.storage.filesystem import Folder
from holdfast.storage.gate import HeldScore, Needed, SharedImages
from holdfast.storage.record import EncoderEntry, MeasureEntry
from json_records import check_entry, encoder_entry, measure_entry, small_record

PART = {"kind": "measures", "name": "nearest_neighbour_accuracy"}
SPEC = registry.spec(registry.build(PART))


@dataclass(frozen=True)
class Made(Run):
    """A run whose tables are given."""

    tables: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str | None) -> Any:
        return self.tables[str(name)]


def entry(score: Score | None, table: str = "t", part: Any = None, unit: str = "share", **said: Any) -> MeasureEntry:
    about = {"title": "Accuracy", "better": "higher", "headline": "worst found"} | said
    scores = {} if score is None else {str(about["headline"]): replace(score, if_weak="at most")}
    return measure_entry(part=part or SPEC, unit=unit, scores=scores, table=table, **about)


def encoder(name: str, measures: dict[str, MeasureEntry], error: str | None = None) -> EncoderEntry:
    checks = {"masking": check_entry("fail", "gradients mislead", "one side")}
    checks["collapse"] = check_entry("fail", "all the same", "void")
    return encoder_entry(name, error=error, measures=measures, origin={"source": name}, checks=checks)


def made(place: str, encoders: Sequence[EncoderEntry], tables: Any = None, **data: Any) -> Made:
    return Made(place, Folder(place), small_record(list(encoders), data=data), tables or {})


def hits(right: int, of: int = 100, shift: int = 0) -> torch.Tensor:
    return (torch.arange(of) < right).double().roll(shift)


def run(place: str, values: torch.Tensor, name: str = "net", score: Score | None = None, **data: Any) -> Made:
    """A run of one encoder: which images it recognises, and the share of them or another score."""
    ids = [f"image {number}" for number in range(len(values))]
    measures = {"accuracy": entry(score or statistics.share(values))}
    table = {"found": values, "found@50": values}
    return made(place, [encoder(name, measures)], {"t": (ids, table)}, **data)


def verdict(now: Run, before: Run, *drops: str) -> HeldScore:
    (row,) = regressions(now, before, drops).verdicts
    return row


def test_a_verdict_by_hand() -> None:
    """90 of 100 against 70 of the same 100: MOVER of two Clopper-Pearson intervals and the phi coefficient."""
    now, before = hits(70), hits(90)
    phi = (0.7 - 0.7 * 0.9) / (0.7 * 0.3 * 0.9 * 0.1) ** 0.5
    row = verdict(run("now", now), run("before", before), "accuracy 5%")
    (low, high), (old_low, old_high) = clopper_pearson(70, 100), clopper_pearson(90, 100)
    below = ((0.7 - low) ** 2 + (old_high - 0.9) ** 2 - 2 * phi * (0.7 - low) * (old_high - 0.9)) ** 0.5
    above = ((high - 0.7) ** 2 + (0.9 - old_low) ** 2 - 2 * phi * (high - 0.7) * (0.9 - old_low)) ** 0.5
    assert row.correlation == pytest.approx(phi)
    assert (row.change.low, row.change.high) == pytest.approx((-0.2 - below, -0.2 + above))
    assert (row.verdict, row.margin.amount) == ("worse", 0.05)
    assert row.p == row.p_adjusted < 0.05
    # the verdict is that of the interval: the loss is at least 20 points less its reach
    just = 100 * (0.2 - above)
    assert verdict(run("now", now), run("before", before), f"accuracy {just - 0.2:.4f}%").verdict == "worse"
    assert verdict(run("now", now), run("before", before), f"accuracy {just + 0.2:.4f}%").verdict == "cannot tell"
    far = 100 * (0.2 + below)
    assert verdict(run("now", now), run("before", before), f"accuracy {far + 0.3:.4f}%").verdict == "no worse"
    assert verdict(run("now", before), run("before", now)).verdict == "better"


def test_a_relative_margin_is_a_linear_contrast() -> None:
    """θ' - (1 - m) θ, whose second part is scaled with its ends: not the change with m θ as if it were known."""
    before, values = Score(1.0, 0.88, 1.12, 100, "Student's t"), torch.linspace(-1, 1, 100)
    for value, expected in ((0.31, "worse"), (0.35, "cannot tell"), (0.65, "cannot tell"), (0.69, "no worse")):
        now = Score(value, value - 0.1, value + 0.1, 100, "Student's t")
        row = verdict(run("now", values, score=now), run("before", -values, score=before), "accuracy 50% relative")
        assert (row.correlation, row.margin.amount) == (pytest.approx(-1), 0.5)
        assert row.verdict == expected
        assert (row.p <= 0.05) == (abs(value - 0.5) > 0.1 + 0.5 * 0.12)  # a known margin would leave 0.1 + 0.12


def test_where_lower_is_better_a_loss_is_a_rise() -> None:
    now, before = Score(0.30, 0.25, 0.35, 100, "Student's t"), Score(0.2, 0.17, 0.23, 100, "Student's t")
    values = torch.rand(100, generator=torch.Generator().manual_seed(0))
    part = {"kind": "measures", "name": "breakaway_risk"}
    measure = registry.build(part)
    spec, column = registry.spec(measure), measure.column
    step = measure.steps[-1]  # pyright: ignore[reportAttributeAccessIssue]
    table = {column: values, f"intrudes@{step}": values}
    rows = {"t": ([str(i) for i in range(100)], table)}
    runs = [
        made(place, [encoder("net", {"risk": entry(score, part=spec, better="lower", headline=f"{step} steps")})], rows)
        for place, score in (("now", now), ("before", before))
    ]
    assert verdict(runs[0], runs[1], "risk 20% relative").verdict == "worse"
    assert verdict(runs[0], runs[1], "risk 200% relative").verdict == "no worse"
    assert verdict(runs[1], runs[0]).verdict == "better"


@pytest.mark.parametrize(
    ("now", "before", "worse", "better"),
    [
        ("sound", "sound", "worse", "better"),
        ("at most", "sound", "worse", "cannot tell"),
        ("sound", "at most", "cannot tell", "better"),
        ("at least", "sound", "cannot tell", "better"),
        ("at most", "at most", "cannot tell", "cannot tell"),
        ("void", "sound", "lost", "lost"),
        ("sound", "void", "cannot tell", "cannot tell"),
        ("void", "void", "cannot tell", "cannot tell"),
    ],
)
def test_a_bound_counts_for_what_weakness_could_not_make(now: str, before: str, worse: str, better: str) -> None:
    """Accuracy found by a weak attack is at most the truth's bound: it can show a loss, never that there is none."""
    for values, expected in (((50, 90), worse), ((90, 50), better)):
        runs = []
        for right, standing in zip(values, (now, before), strict=True):
            because = {"sound": (), "void": ("collapse",)}.get(standing, ("masking",))
            flawed = replace(statistics.share(hits(right)), standing=standing, because=because)  # pyright: ignore
            runs.append(run(f"run {len(runs)}", hits(right), score=flawed))
        row = verdict(*runs)
        assert row.verdict == expected, row
        if expected == "cannot tell":
            assert "one representation" in row.reason or "misleading gradients" in row.reason


def test_equal_tables_are_no_worse_unless_a_bound_hides_the_truth() -> None:
    same = run("now", hits(80)), run("before", hits(80))
    assert verdict(*same).verdict == "no worse"
    assert regressions(*same).comparisons == 0
    assert verdict(run("now", hits(80, shift=1)), same[1]).verdict == "cannot tell", "equal values, other images"
    weak = replace(statistics.share(hits(80)), standing="at most", because=("masking",))
    one = run("now", hits(80), score=weak), run("before", hits(80), score=weak)
    assert verdict(*one).verdict == "no worse", "one encoder: whatever the truth is, it is the same"
    other = run("now", hits(80), "other", score=weak), run("before", hits(80), score=weak)
    assert verdict(*other).verdict == "cannot tell"


def test_what_is_gone_is_lost_and_what_was_never_there_is_not() -> None:
    before, gone = run("before", hits(80)), Score(None, None, None, 100, "order statistics", note="none was broken")
    assert verdict(run("now", hits(80), score=gone), before).verdict == "cannot tell"
    assert verdict(before, run("earlier", hits(80), score=gone)).verdict == "cannot tell"
    failed = made("now", [encoder("net", {"accuracy": entry(None, error="NaN", headline=None)})])
    assert (verdict(failed, before).verdict, verdict(failed, before).reason) == ("lost", "failed: NaN")
    unopened = made("now", [encoder("net", {}, error="no such file")])
    data = regressions(unopened, before)
    assert (data.passed, data.verdicts[0].verdict) == (False, "lost")
    assert data.verdicts[0].reason == "not audited: no such file"
    with pytest.raises(Failed, match="net"):
        regressions(before, unopened)


def test_verdicts_are_corrected_in_each_direction() -> None:
    """Four encoders that lose the same: alone each is worse, of twenty none that is barely so."""
    before, now = hits(90), hits(82)
    alone = verdict(run("now", now), run("before", before))
    assert (alone.verdict, alone.p) == ("worse", alone.p_adjusted)
    for many in (2, 40):
        new, old = (
            made(
                place,
                [encoder(f"net {i}", {"accuracy": entry(statistics.share(v))}) for i in range(many)],
                {"t": ([str(i) for i in range(100)], {"found": v, "found@50": v})},
            )
            for place, v in (("now", now), ("before", before))
        )
        rows = regressions(new, old).verdicts
        assert [row.p_adjusted for row in rows] == pytest.approx([min(1, many * alone.p)] * many)
        assert all(row.verdict == ("worse" if many * alone.p <= 0.05 else "cannot tell") for row in rows)
    # one encoder becomes worse and one better: each is corrected as one of two
    new, old = (
        made(
            place,
            [encoder(f"net {i}", {"accuracy": entry(statistics.share(v), f"t{i}")}) for i, v in enumerate(values)],
            {f"t{i}": ([str(j) for j in range(100)], {"found": v, "found@50": v}) for i, v in enumerate(values)},
        )
        for place, values in (("now", (now, before)), ("before", (before, now)))
    )
    rows = regressions(new, old).verdicts
    assert [row.verdict for row in rows] == ["worse", "better"]
    assert [row.p_adjusted for row in rows] == pytest.approx([2 * row.p for row in rows])


def test_other_images_are_not_paired_and_other_sources_are_refused() -> None:
    before = run("before", hits(90))
    paired = verdict(run("now", hits(70)), before)
    row = verdict(run("now", hits(70), fingerprint="g"), before)
    assert (row.paired, row.correlation, row.change.interval) == (
        False,
        None,
        "unpaired, from both intervals",
    )
    assert row.p > paired.p
    for different in ({"fingerprint": "g", "spec": "cifar10"}, {"fingerprint": "g", "images": 50}):
        with pytest.raises(Mismatch, match=r"cifar10|50 and 100"):
            regressions(run("now", hits(70), **different), before)
    other = made("now", [encoder("net", {"accuracy": entry(statistics.share(hits(70)), part={**SPEC, "passes": 7})})])
    with pytest.raises(Mismatch, match="7 and 100"):
        regressions(other, before)


def test_measures_that_were_asked_otherwise_are_named_once() -> None:
    def asked(place: str, radius: float, *names: str) -> Made:
        part = {**SPEC, "ball": {**SPEC["ball"], "radius": radius}}
        measures = {name: entry(statistics.share(hits(80)), part={**part, "passes": n}) for n, name in enumerate(names)}
        measures["same"] = entry(statistics.share(hits(80)))
        return made(
            place,
            [encoder("net", measures)],
            {"t": ([str(i) for i in range(100)], {"found": hits(80), "found@50": hits(80)})},
        )

    now, before = asked("now", 8 / 255, "a", "b"), asked("before", 0.1, "a", "b")
    assert regressions(now, before).left_out == ["a, b left out: --eps: 8/255 and 0.1"]
    assert regressions(now, before, ["same 5%"]).left_out == []
    with pytest.raises(UnknownName, match=r"8/255 and 0\.1$"):
        regressions(now, before, ["a 5%"])


def test_runs_that_share_a_part_of_the_images_are_compared_on_these() -> None:
    """Of 100 attacked images 60 are those of the baseline: the other 40, all recognised, change nothing."""
    values = torch.cat([hits(40, 60, 5), torch.ones(40).double()])
    now, before = run("now", values), run("before", hits(55, 60, 5), attacked=60)
    row, alone = verdict(now, before), verdict(run("now", values[:60], attacked=60), before)
    assert row.images == SharedImages(now=100, baseline=60, shared=60)
    assert (row.now.value, row.baseline.value, row.now.n) == (40 / 60, 55 / 60, 60)
    assert all(getattr(row, key) == getattr(alone, key) for key in ("change", "correlation", "p", "margin"))
    assert row.verdict == "worse"
    assert verdict(before, now).images == SharedImages(now=60, baseline=100, shared=60)
    assert "image by image; all numbers are of these: 60 of 100 images shared" in against(regressions(now, before))
    assert against(regressions(before, before)).endswith("image by image")
    weak = replace(statistics.share(values), standing="at least", because=("masking",))
    assert verdict(run("now", values, score=weak), before).now.standing == "at least"


def test_encoders_are_matched_by_name_or_as_said() -> None:
    def several(place: str, *names: str) -> Made:
        table = {"t": ([str(i) for i in range(100)], {"found": hits(80), "found@50": hits(80)})}
        return made(place, [encoder(name, {"accuracy": entry(statistics.share(hits(80)))}) for name in names], table)

    two, one = several("now", "a", "b?x=1"), several("before", "a")
    assert [r.baseline_encoder for r in regressions(several("now", "new"), one).verdicts] == ["a"]
    with pytest.raises(UnknownName, match=r"b\?x=1"):
        regressions(two, one)
    assert [r.encoder for r in regressions(two, one, encoders=["a"]).verdicts] == ["a"]
    said = regressions(two, several("before", "a", "c?y=2"), match=["b?x=1=c?y=2"]).verdicts
    assert [row.baseline_encoder for row in said] == ["a", "c?y=2"]
    assert regressions(two, several("before", "a", "c"), match={"b?x=1": "c"}).passed
    for match, kind, message in ((["b"], BadValue, "NEW=OLD"), (["a=d"], UnknownName, "d")):
        with pytest.raises(kind, match=message):
            regressions(two, one, match=match)
    with pytest.raises(UnknownName, match="z"):
        regressions(two, one, encoders=["z"])


def test_the_images_that_would_tell_are_those_of_the_textbook() -> None:
    """Of means: n = ((z_0.975 + z_0.8) σ / Δ)² for an interval of 95 %, up to Student's t; of shares as measured."""
    random = torch.Generator().manual_seed(1)
    first, second = (mean(1 + torch.rand(200, generator=random).double()) for _ in range(2))
    sigma = 2**0.5 * (1 / 12) ** 0.5
    for gap in (0.05, 0.01):
        times = times_needed(gap, first, second, 0.0, scale=1.0, level=0.05)
        assert times is not None
        assert times * 200 == pytest.approx(((1.96 + 0.8416) * sigma / gap) ** 2, rel=0.1)
    assert times_needed(0.0, first, second, 0.0, scale=1.0, level=0.05) is None
    half = times_needed(0.02, first, second, 0.5, scale=1.0, level=0.05)
    whole = times_needed(0.02, first, second, 0.0, scale=1.0, level=0.05)
    assert half is not None
    assert whole is not None
    assert half == pytest.approx(whole / 2, rel=0.05)


@pytest.mark.parametrize(("p", "old"), [(0.8, 0.9), (0.02, 0.08), (0.5, 0.6)])
def test_so_many_images_tell_four_times_in_five(p: float, old: float) -> None:
    """Plan from 100 images that are as they should be, then draw as many as planned: the interval excludes zero."""
    first, second = (statistics.share(hits(round(100 * share))) for share in (p, old))
    times = times_needed(p - old, first, second, 0.0, scale=1.0, level=0.05)
    assert times is not None
    images, random = round(100 * times), torch.Generator().manual_seed(2)
    told = 0
    for _ in range(400):
        a, b = (statistics.share((torch.rand(images, generator=random) < share).double()) for share in (p, old))
        gap = statistics.difference(a, b, 0.0)
        assert gap.high is not None
        told += gap.high < 0
    assert told / 400 == pytest.approx(0.8, abs=0.07)


def test_how_many_images_are_said_where_nothing_can_be_told() -> None:
    row = verdict(run("now", hits(79, shift=3)), run("before", hits(80)), "accuracy 2%")
    assert row.verdict == "cannot tell"
    needed = row.needed
    assert needed.available == 600
    assert needed.of == "images"
    assert needed.as_measured > needed.if_equal > 100, "half of the margin is left, so four times as many"
    scarce = structs.replace(needed, available=needed.if_equal)
    assert "; if the change is as measured, that takes more than the" in sentence(structs.replace(row, needed=scarce))
    few = Needed(as_measured=173, if_equal=326, available=600, of="attacked images")
    assert sentence(structs.replace(row, needed=few)).endswith(
        "cannot tell. To decide with 80 % power, attack about 170 images in both runs if the change is as measured, or "
        "about 330 if there is no change"
    )
    many = structs.replace(few, as_measured=None, if_equal=720_001)
    assert sentence(structs.replace(row, needed=many)).endswith(
        "takes more than the 600 images available: allow a larger drop, or use more data"
    )
    assert verdict(run("now", hits(79, shift=3)), run("before", hits(80))).needed.if_equal is None


def test_a_table_without_a_column_is_told() -> None:
    now, before = run("now", hits(70)), run("before", hits(90))
    del now.tables["t"][1]["found@50"]
    with pytest.raises(BadData) as error:
        verdict(now, before, "accuracy 5%")
    assert "'found@50' among the columns and scores in 'now' or 'before'; run the audit again" in str(error.value)
