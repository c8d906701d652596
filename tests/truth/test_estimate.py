"""Estimates against what is known: the record's passes, clocks of known pace, shards that the audit goes on from."""

import io
import itertools
import time
from dataclasses import replace as replace_plan
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from rich.console import Console
from torch import nn

from holdfast.auditing.estimate.estimate import estimate
from holdfast.auditing.estimate.extrapolate import extrapolate, relative_range
from holdfast.auditing.estimate.time_passes import PassTimes
from holdfast.auditing.estimate.time_shards import SPARED, Stopwatch, TimeUp, Timing, time_observation
from holdfast.auditing.partition import Part
from holdfast.auditing.plan import Plan, Round
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.rounds import answering
from holdfast.auditing.session import Session
from holdfast.core import Encoder, Margin, Passes
from holdfast.numerics.bounds import effort
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.radii import Radii
from holdfast.parts.threats.linf import Linf
from holdfast.report.documents.estimate import document
from holdfast.report.render import print_document
from holdfast.runtime.errors import BadValue
from holdfast.sources.data import open_images
from holdfast.storage.estimate import Estimate
from holdfast.storage.run_folder import Store
from json_records import run_audit

PER_IMAGE = 0.01
"""Seconds that one pass of one image takes by the clock of these tests."""


class Clock:
    """A clock that stands still but for what is added to it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow(nn.Module):
    """A linear map that takes `PER_IMAGE` of a clock's time for each image, and once as much again for its gradient."""

    def __init__(self, clock: Clock, dim: int = 6):
        super().__init__()
        self.clock, self.linear = clock, nn.Linear(64, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.now += PER_IMAGE * len(x)
        reps = self.linear(x.flatten(1))
        if reps.requires_grad:
            reps.register_hook(self._gradient)
        return reps

    def _gradient(self, gradient: torch.Tensor) -> None:
        self.clock.now += PER_IMAGE * len(gradient)


def slow(clock: Clock, dim: int = 6) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Encoder(Slow(clock, dim), mean=0.0, std=1.0, name="slow")


def estimated(folder: Path, plan: Plan, seconds: float = 10.0, dim: int = 6, **run) -> Estimate:
    clock = Clock()
    return estimate(plan, folder, encoders={"slow": slow(clock, dim)}, seconds=seconds, clock=clock, **run)


MEASURES = (BreakawayRisk(Pgd(20), Linf(0.1)), UniversalQuantile(Pgd(20), Linf(0.1)))
PLAN = Plan(("slow",), "digits", MEASURES, images=200, attacked=100, batch_size=32)
WORK = 200 + 100 * 41
"""Passes of that plan: clean ones, then 21 forward and 20 backward for each attacked image."""


@pytest.mark.parametrize(("seconds", "shards"), [(0.5, None), (5.0, 7), (20.0, 8), (200.0, 11)])
def test_the_time_of_a_slow_encoder_is_estimated_from_the_shards_that_the_time_allows(
    tmp_path: Path, seconds: float, shards: int | None
) -> None:
    """Clean representations take 2 s, a shard under attack 13; where the former do not fit, nothing is kept."""
    whole = estimated(tmp_path / "run", PLAN, seconds)
    (encoder,) = whole.encoders
    assert encoder.error is None
    truth = PER_IMAGE * WORK
    assert whole.seconds is not None
    assert whole.seconds.low <= truth * 1.05
    assert whole.seconds.high >= truth * 0.95
    assert whole.seconds.expected == pytest.approx(truth, rel=0.1)
    assert encoder.stored == shards
    files = list((tmp_path / "run").rglob("*.safetensors"))
    assert len(files) == (shards or 0)
    least = PER_IMAGE * 32 * 5  # single passes, and one step beyond the end
    assert whole.calibration_seconds <= max(seconds, least) * 1.2 + PER_IMAGE * 64


def test_an_audit_goes_on_from_what_was_timed_and_another_one_is_not_refused(tmp_path: Path) -> None:
    encoders = {"slow": slow(Clock())}
    first = estimated(tmp_path, PLAN, 20.0)
    assert not (tmp_path / "record.json").exists()
    other = Plan(("slow",), "digits", MEASURES, images=100, attacked=50, batch_size=32)
    assert estimated(tmp_path, other).encoders[0].stored > 0
    record = run_audit(PLAN, tmp_path, encoders=encoders)
    assert record["run"]["resumed_shards"] == first.encoders[0].stored == 8
    fresh = run_audit(PLAN, tmp_path / "fresh", encoders=encoders)
    assert record["encoders"][0]["passes"] == fresh["encoders"][0]["passes"]
    again = estimated(tmp_path, PLAN).encoders[0]
    assert again.stored == again.shards == 11


def test_workers_divide_time_and_multiply_memory(tmp_path: Path) -> None:
    one, four = estimated(tmp_path / "1", PLAN), estimated(tmp_path / "4", PLAN, workers=4)
    assert four.seconds.expected == pytest.approx(one.seconds.expected / 4, rel=0.05)
    assert four.memory_bytes >= 3.5 * one.memory_bytes
    assert four.passes == one.passes


def test_parts_add_up_to_the_whole(tmp_path: Path) -> None:
    whole = estimated(tmp_path, PLAN).passes.work
    parts = [estimated(tmp_path, PLAN, part=Part(number, 3)).passes.work for number in (1, 2, 3)]
    assert sum(parts) == pytest.approx(whole, rel=0.02)
    assert max(parts) < 0.6 * whole


@pytest.mark.slow
def test_predicted_passes_are_those_of_the_record(tmp_path: Path) -> None:
    settings = {"images": 24, "attacked": 8, "batch_size": 8, "settings": ["*.attack.steps=10"]}
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile="hardening", **settings))
    whole = estimate(plan, tmp_path, seconds=1.0)
    record = run_audit(plan, tmp_path)
    spent, own = record["encoders"][0]["passes"], plan.predict_checks(24)
    assert [whole.passes.forward, whole.passes.backward] == [
        spent["forward"] + own.forward, spent["backward"] + own.backward,
    ]  # fmt: skip
    parts = [part for part in whole.encoders[0].parts if part.kind == "observation"]
    observations = record["encoders"][0]["observations"]
    assert sorted((part.title, part.passes.work) for part in parts if part.images) == sorted(
        (observation["title"], Passes(**observation["passes"]).work) for observation in observations
    )


def test_progress_counts_the_same(tmp_path: Path) -> None:
    assert estimated(tmp_path, PLAN).passes.work == PLAN.predict(200).work == WORK


class Told:
    """A listener that keeps what was promised, what was done, and how far the bar was at each stage."""

    def __init__(self) -> None:
        self.promised = self.done = 0
        self.stages: dict[str, int] = {}

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        self.promised, self.done = passes, 0

    def advance(self, passes: int) -> None:
        self.done += passes

    def stage(self, text: str) -> None:
        self.stages[text] = self.done


@pytest.mark.sweep(2)
@pytest.mark.parametrize("draws", [None, 8])
def test_checks_make_the_passes_that_are_predicted_and_the_bar_waits_for_them(
    tmp_path: Path, draws: int | None
) -> None:
    settings = {"images": 24, "attacked": 8, "batch_size": 8, "settings": ["*.attack.steps=4"], "measures": ASKED}
    settings |= {"examined": 2}
    spec = "zoo:digits-simclr" + ("" if draws is None else f"?draws={draws}")
    plan, told = make_plan(AuditRequest([spec], "digits", **settings)), Told()
    checks = run_audit(plan, tmp_path, listener=told)["encoders"][0]["checks"]
    predicted = {n: c.own_passes(24, 8).of_draws(draws).work for n, c in plan.checks_by_name.items()}
    assert {n: Passes(**check["passes"]).work for n, check in checks.items()} == predicted
    assert sum(predicted.values()) > 0
    assert told.done == told.promised == plan.predict_work(24, draws=draws)
    assert told.stages["checking remembers"] < told.stages["checking gradient_health"] < told.promised
    # What is kept of a check makes no pass again, and moves the bar all the same
    again = Told()
    run_audit(plan, tmp_path, listener=again)
    assert again.done == again.promised


ASKED = ("breakaway_risk[attack=pgd]",)


def test_the_first_round_is_foretold_by_what_it_asks(tmp_path: Path) -> None:
    """It asks no more than what answers in a sentence, of six images, after all were represented."""
    measures = (BreakingRadius(Linf(0.1), steps=20, certified=0), *MEASURES)
    plan = Plan(("slow",), "digits", measures, images=200, attacked=100, batch_size=32, budget=1.0)
    whole = estimated(tmp_path, plan, 200.0)
    assert whole.budget is not None
    assert (whole.budget.attacked, whole.budget.answers_only) == (6, True)
    first = replace_plan(answering(plan), round=Round(6))
    assert whole.budget.takes == pytest.approx(PER_IMAGE * first.predict_work(200), rel=0.3)
    assert whole.budget.takes < 0.3 * whole.seconds.expected
    generous = estimated(tmp_path / "again", replace_plan(plan, budget=1000.0), 200.0).budget
    assert (generous.attacked, generous.answers_only) == (100, False)
    assert generous.takes == pytest.approx(whole.seconds.expected, rel=0.01)


def test_more_images_than_there_are_take_longer_in_proportion(tmp_path: Path) -> None:
    few = replace_plan(PLAN, images=3000, attacked=None)
    whole = estimated(tmp_path, few, 30.0)
    assert whole.images < 3000
    assert whole.more is not None
    assert (whole.more.images, whole.more.attacked) == (3000, 3000)
    assert whole.more.seconds == pytest.approx(PER_IMAGE * few.predict(3000).work, rel=0.15)


@pytest.mark.slow
def test_what_is_written_grows_with_images_and_dimensions(tmp_path: Path) -> None:
    def bytes_of(images: int, dim: int) -> int:
        plan = Plan(("slow",), "digits", MEASURES[:1], images=images, attacked=images // 2, batch_size=32)
        return estimated(tmp_path / f"{images}-{dim}", plan, 200.0, dim=dim).disk_bytes

    assert bytes_of(400, 6) / bytes_of(200, 6) == pytest.approx(2, rel=0.1)
    assert bytes_of(200, 600) / bytes_of(200, 300) == pytest.approx(2, rel=0.1)
    assert bytes_of(200, 300) >= 4 * 300 * (200 + 100)  # clean ones and those under attack, in float32
    files = sum(file.stat().st_size for file in (tmp_path / "200-600").rglob("*.safetensors"))
    assert bytes_of(200, 600) == pytest.approx(files, rel=0.1)


def session(tiny: Encoder, folder: Path, watch: Stopwatch, images: int = 64) -> tuple[Session, Store]:
    store, source = Store(folder), open_images("digits", images=images)
    ready = Session(
        tiny, source, attacked=images // 2, seed=0, batch_size=8, device="cpu", store=store, progress=watch.advance
    )
    ready.observe(Clean())
    return ready, store


def test_what_reads_more_than_could_be_made_is_guessed_from_its_passes(tmp_path: Path) -> None:
    """Learning the noise takes 1,000 seconds and more; draws of it cannot be made before."""
    plan = Plan(("slow",), "digits", (WorstNoiseRobustness(),), images=64, attacked=32, batch_size=32)
    (encoder,) = estimated(tmp_path, plan, 20.0).encoders
    guessed = [part for part in encoder.parts if part.guessed]
    assert guessed
    for part in guessed:
        assert "it needs worst noise learned" in part.how
        assert part.seconds == pytest.approx(PER_IMAGE * part.passes.work, rel=0.02)
    learned = next(part for part in encoder.parts if part.title.startswith("worst noise learned"))
    assert learned.seconds == pytest.approx(PER_IMAGE * learned.passes.work, rel=0.1)
    assert "of a shard of" in learned.how


@pytest.mark.slow
def test_what_may_end_early_is_timed_on_few_images_to_the_end(tiny: Encoder, tmp_path: Path) -> None:
    watch = Stopwatch(tiny, time.perf_counter)
    ready, store = session(tiny, tmp_path, watch)
    watch.deadline = time.perf_counter() + 60
    timing = time_observation(ready, store, Radii(), watch)
    assert timing.how == "shards made: 4"  # 32 images, 8 to a shard
    assert (timing.rows or {})["radius"].shape == (8, 10)


def test_a_stopped_shard_leaves_no_trace(tiny: Encoder, tmp_path: Path) -> None:
    ticks = iter(range(10_000))
    watch = Stopwatch(tiny, lambda: float(next(ticks)))
    ready, store = session(tiny, tmp_path, watch)
    attacked = Attacked(Pgd(50), Linf(0.1))
    watch.deadline = next(ticks) + 60.0
    timing = time_observation(ready, store, attacked, watch)
    assert "of a shard of 8" in timing.how
    assert timing.rows is None
    assert not timing.at_least
    assert tiny.watch is None
    assert not any(store.exists(shard.file) for shard in ready.shard_files(attacked))


@pytest.mark.parametrize(
    ("observation", "standings", "expected", "at_least"),
    [
        (Certified(), [(0, 0)], 6.0, True),  # not even foretold
        (Certified(), [(0, 0), (0, 60)], 5 + 60.0, False),  # as foretold
        (Certified(), [(0, 0), (0, 60), (15, 60)], 5 / 0.25, False),  # by its own pace
        (Radii(), [(0, 0), (0, 60), (15, 60)], 5 / 0.25 * Radii().passes.bounds * SPARED, False),
    ],
)
def test_what_ends_in_the_middle_of_its_first_propagation_is_foretold(
    tiny: Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    observation: Certified | Radii,
    standings: list[tuple[float, float]],
    expected: float,
    at_least: bool,
) -> None:
    """It makes no pass, so nothing says how far it came but a propagation that tells its own progress."""
    clock = Clock()
    watch = Stopwatch(tiny, clock)
    ready, store = session(tiny, tmp_path, watch)

    def forever(*given: object) -> None:
        listener = effort._listener.get()
        assert listener is not None
        for done, total in itertools.chain(standings, itertools.repeat(standings[-1])):
            clock.now += 1.0
            listener(effort.Standing(done, total, 1))

    monkeypatch.setattr(type(observation), "run", forever)
    watch.deadline = clock.now + 5.5
    timing = time_observation(ready, store, observation, watch)
    assert timing.at_least == at_least
    assert timing.seconds == pytest.approx(expected)
    assert "bound propagation was done" in timing.how


def test_code_of_users_is_not_to_blame_for_the_end_of_the_time(tmp_path: Path) -> None:
    from holdfast.runtime.foreign import foreign

    with pytest.raises(TimeUp), foreign("an encoder", "run"):
        raise TimeUp


def test_a_propagation_counts_when_it_is_done(tiny: Encoder, edges: torch.Tensor) -> None:
    class Stops(Crown):
        def lower(self, *given, **more):
            raise KeyboardInterrupt

    margin, before = Margin(torch.ones(8, 1, 12), torch.zeros(8, 1)), tiny.passes
    with pytest.raises(KeyboardInterrupt):
        Stops()(tiny, margin, edges, Linf(0.1))
    assert tiny.passes == before
    Crown()(tiny, margin, edges, Linf(0.1))
    assert (tiny.passes - before).bounds == 8


def test_lower_bounds_of_times_are_printed_as_such(tmp_path: Path) -> None:
    shown, data = io.StringIO(), estimated(tmp_path, PLAN)
    (encoder,) = data.encoders
    first, second, third, *others = encoder.parts
    parts = (
        replace(first, at_least=True, title="margins"),
        replace(second, how="not certified: too large", title="radii"),
        replace(
            third, how="not timed: it needs radii first; estimated from its encoder passes", title="draws", guessed=True
        ),
        *others,
    )
    data = replace(data, at_least=True, encoders=[replace(encoder, at_least=True, parts=parts)])
    print_document(document(data), Console(file=shown, width=150))
    text = " ".join(shown.getvalue().split())
    assert "≥ " in text
    assert text.count("at least ") == 2
    assert "about" not in text
    assert "radii: not certified: too large" in text
    assert "draws: not timed: it needs radii first" in text


def test_pairs_and_searches_that_were_not_timed_have_a_lower_bound(tmp_path: Path) -> None:
    """In no time the clean representations are not complete, and the search for a breaking radius is not begun."""
    plan = Plan(("slow",), "digits", (UniversalQuantile(), BreakingRadius()), images=200, attacked=100, batch_size=32)
    data = estimated(tmp_path, plan, 0.1)
    guessed = [part for part in data.encoders[0].parts if part.guessed]
    assert {part.kind for part in guessed} == {"observation", "scores"}
    assert any("number of pairs" in part.how for part in guessed)
    assert all(part.at_least and not part.at_most for part in guessed)
    assert data.at_least
    print_document(document(data), Console(file=(shown := io.StringIO()), width=200))
    rows = [line for line in shown.getvalue().splitlines() if "comparing representations" in line]
    assert rows
    assert all("≥ " in row for row in rows)
    assert "at most" not in shown.getvalue()


class Ticking(Clock):
    """A clock that goes on by as much whenever it is read, so that all that is timed once takes as long."""

    def __call__(self) -> float:
        self.now += 1e-4
        return self.now


def test_pairs_are_foretold_where_nothing_could_be_timed(tmp_path: Path) -> None:
    """As long as so many pairs take, whether or not what they are read from was complete."""
    seconds, pairs = [], []
    for pairs_of in (20, 600):
        clock, measure = Ticking(), UniversalQuantile(pairs_of=pairs_of)
        plan = Plan(("slow",), "digits", (measure,), images=600, attacked=8, batch_size=32)
        folder = tmp_path / str(pairs_of)
        whole = estimate(plan, folder, encoders={"slow": slow(clock)}, seconds=0.01, clock=clock)
        (part,) = [part for part in whole.encoders[0].parts if part.kind == "scores"]
        assert (part.title, part.guessed) == ("universal_quantile", True)
        assert part.how.endswith("number of pairs")
        seconds.append(part.seconds)
        pairs.append(measure.pairs(whole.images))
    assert pairs[0] < pairs[1]
    assert seconds[1] / seconds[0] == pytest.approx(pairs[1] / pairs[0])


def test_what_was_not_timed_takes_as_long_as_its_passes() -> None:
    passes = PassTimes((0.5, 0.5), (1.0, 3.0), (6.0, 6.0), 4)
    assert passes.seconds(Passes(forward=10, backward=5)) == 10 * 2 + 5 * 4
    attack = extrapolate(Attacked(Pgd(5), Linf(0.1)), 7, Timing(None, (), "why"), passes, "float32", ())
    assert attack.seconds == 7 * passes.seconds(Attacked(Pgd(5), Linf(0.1)).passes)
    assert (attack.guessed, attack.at_least, attack.at_most) == (True, True, False)
    proof = extrapolate(Certified(), 7, Timing(None, (), "why"), passes, "float32", ())
    assert (proof.seconds, proof.at_least) == (7 * 2.0, True)
    assert relative_range((1.0, 3.0)) == (0.0, 2.0)  # one second or three: two standard errors are two
    assert relative_range((6.0, 6.0)) == (1.0, 1.0)


def test_an_encoder_that_fails_is_said_so_and_the_others_go_on(tmp_path: Path) -> None:
    clock = Clock()
    broken = Encoder(nn.Linear(3, 3), mean=0.0, std=1.0, name="broken")
    plan = Plan(("broken", "slow"), "digits", MEASURES, images=64, attacked=32, batch_size=32)
    encoders = {"broken": broken, "slow": slow(clock)}
    whole = estimate(plan, tmp_path, encoders=encoders, seconds=5.0, clock=clock)
    assert [row.error is None for row in whole.encoders] == [False, True]
    assert whole.seconds == whole.encoders[1].seconds


@pytest.mark.parametrize(("seconds", "workers"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (1.0, 0)])
def test_no_time_and_no_workers_are_refused(tmp_path: Path, seconds: float, workers: int) -> None:
    with pytest.raises(BadValue, match="estimate"):
        estimated(tmp_path, PLAN, seconds=seconds, workers=workers)
