"""Forecasts against what is known: the record's passes, sleeps of known length, memory that grows as it must."""

import io
import signal
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

from holdfast.auditing.estimate import rehearsal
from holdfast.auditing.estimate.calibration import Calibration, UnitTimes
from holdfast.auditing.estimate.expected import Forecast, as_data
from holdfast.auditing.estimate.forecast import forecast
from holdfast.auditing.estimate.rehearsal import rehearse
from holdfast.auditing.estimate.stand_in import StandIn, made_up
from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder, HoldfastError, Margin, Passes
from holdfast.core.encoder import BOUND
from holdfast.numerics.bounds import effort
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.sampled import Sampled
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.report.forecast import print_forecast
from holdfast.runtime.errors import NotCertified
from holdfast.sources.data import ImageSet, open_images

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


def foretold(clock: Clock, plan: Plan, seconds: float = 3.0, dim: int = 6, **run) -> Forecast:
    return forecast(plan, "nowhere", encoders={"slow": slow(clock, dim)}, seconds=seconds, clock=clock, **run)


MEASURES = (BreakawayRisk(Pgd(20), Linf(0.1)), UniversalQuantile(Pgd(20), Linf(0.1)))
PLAN = Plan(("slow",), "digits", MEASURES, images=200, attacked=100, batch_size=32)
WORK = 200 + 100 * 41
"""Passes of that plan: clean ones, then 21 forward and 20 backward for each attacked image."""


@pytest.mark.parametrize("seconds", [0.5, 5.0, 200.0])
def test_the_time_of_a_slow_encoder_is_foretold(seconds: float) -> None:
    (one,) = foretold(Clock(), PLAN, seconds).encoders
    assert one.error is None
    expected, low, high = one.seconds()
    truth = PER_IMAGE * WORK
    assert low <= truth * 1.02
    assert high >= truth * 0.98
    assert truth / 1.3 < expected < truth * 1.3  # measures and reading take no time by this clock


def test_a_rehearsal_keeps_to_its_time_by_the_clock() -> None:
    clock = Clock()
    found = foretold(clock, PLAN, seconds=10.0)
    least = PER_IMAGE * 32 * 12  # two rounds of each kind and those that set things up
    assert found.calibration <= max(10.0, least) * 1.2
    assert clock.now == pytest.approx(found.calibration)


def test_workers_divide_time_and_multiply_memory() -> None:
    one, four = foretold(Clock(), PLAN), foretold(Clock(), PLAN, workers=4)
    assert four.seconds[0] == pytest.approx(one.seconds[0] / 4, rel=0.05)
    assert four.memory >= 3.5 * one.memory
    assert four.passes == one.passes


@pytest.mark.slow
def test_predicted_passes_are_those_of_the_record(tmp_path: Path) -> None:
    settings = {"images": 24, "attacked": 8, "batch_size": 8, "settings": ["*.attack.steps=3"]}
    plan = make_plan(["zoo:digits-simclr"], "digits", profile_name="hardening", **settings)
    found = forecast(plan, tmp_path / "run", seconds=0.5)
    assert not (tmp_path / "run").exists()
    record = run_audit(plan, tmp_path / "run")
    passes = record["encoders"][0]["passes"]
    assert (found.passes.forward, found.passes.backward) == (passes["forward"], passes["backward"])
    by_title = {cost.title: cost.passes for cost in found.encoders[0].observations}
    for seen in record["encoders"][0]["observations"]:
        assert by_title[seen["title"]] == Passes(**seen["passes"]), seen["title"]
    again = forecast(plan, tmp_path / "run", seconds=0.5)
    assert again.encoders[0].stored == again.encoders[0].shards == found.encoders[0].shards
    other = forecast(plan, tmp_path / "other", seconds=0.5)
    assert other.encoders[0].stored == 0


def test_progress_counts_the_same() -> None:
    heard: list[int] = []
    plan = PLAN
    found = foretold(Clock(), plan)
    heard.append(plan.predict(200).work)
    assert as_data(found)["passes"]["work"] == heard[0] == WORK


def test_memory_grows_with_images_and_dimensions() -> None:
    def kept(images: int, dim: int) -> int:
        clock = Clock()
        plan = Plan(("slow",), "digits", MEASURES[:1], images=images, attacked=images // 2, batch_size=32)
        (one,) = foretold(clock, plan, dim=dim).encoders
        return one.kept

    assert kept(400, 6) / kept(200, 6) == pytest.approx(2, rel=0.1)
    assert kept(200, 600) / kept(200, 300) == pytest.approx(2, rel=0.1)
    assert kept(200, 300) >= 4 * 300 * (200 + 100)  # clean ones and those under attack, in float32


def stand_in(tiny: Encoder, images: int = 64) -> StandIn:
    source = open_images("digits", size=images)
    real = torch.randn(16, 12)
    return StandIn(tiny, source, attacked=images // 2, seed=0, device="cpu", real=real)


@pytest.mark.slow
def test_what_learns_first_is_rehearsed_without_its_lesson(tiny: Encoder) -> None:
    whole = stand_in(tiny)
    pace = rehearse(whole, Sampled(noise=WorstNoise()), 32, 32, 30.0, time.perf_counter)
    assert pace is not None
    assert len(whole.learned_noise) == 1
    assert pace.row_bytes is not None


def test_a_rehearsal_leaves_no_trace(tiny: Encoder) -> None:
    before = tiny.passes = Passes(3, 2, 1)
    assert rehearse(stand_in(tiny), Attacked(Pgd(5), Linf(0.1)), 32, 8, 30.0, time.perf_counter) is not None
    assert (tiny.passes, tiny.watch) == (before, None)


@pytest.mark.parametrize("share", [None, 0.25])
def test_what_ends_in_the_middle_of_its_first_propagation_takes_at_least_so_long(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch, share: float | None
) -> None:
    """It makes no pass, so nothing says how far it came but a propagation that tells its own progress."""

    def forever(*given: object) -> None:
        if share is not None:
            listener = effort._listener.get()
            assert listener is not None
            listener(share)
        while True:
            pass

    monkeypatch.setattr(Certified, "run", forever)
    handler = signal.getsignal(signal.SIGVTALRM)
    monkeypatch.setattr(rehearsal, "BEGINNING", 2)
    pace = rehearse(stand_in(tiny), Certified(), 32, 8, 0.1, time.perf_counter)
    assert pace is not None
    assert pace.at_least
    assert pace.seconds >= 0.1 * rehearsal.PATIENCE * 32 / (share or 1.0)  # one image at a time
    assert ("0.25 of the first bound propagation" in pace.how) == (share is not None)
    assert signal.getsignal(signal.SIGVTALRM) == handler
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


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


@pytest.mark.parametrize("certifier", [Crown(), AlphaCrown(2, 2)])
def test_a_propagation_tells_its_progress_and_what_is_too_much_is_refused(
    certifier: Crown | AlphaCrown, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = [nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), nn.Flatten()]
    encoder = Encoder(nn.Sequential(*layers, nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, 4)), mean=0, std=1)
    x, margin = torch.full((1, 1, 8, 8), 0.5), Margin(torch.ones(1, 1, 4), torch.zeros(1, 1))
    shares: list[float] = []
    with effort.listening(shares.append):
        certifier(encoder, margin, x, L2(0.5))
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert 0 < shares[1] < shares[-1] <= 1
    assert shares[-1] == 1 or isinstance(certifier, AlphaCrown)
    monkeypatch.setitem(effort.MOST, "cpu", 1e3)
    with pytest.raises(NotCertified, match=r"not certified: \d+ values .* take crown_ibp or interval"):
        certifier(encoder, margin, x, L2(0.5))
    CrownIbp()(encoder, margin, x, L2(0.5))


def test_margins_of_the_rehearsed_images_are_their_own(tiny: Encoder) -> None:
    """With the representation of another image a margin is lost from the start, and its radius needs no search."""
    real, source = torch.randn(16, 12), open_images("digits", size=64)
    clean = StandIn(tiny, source, attacked=32, seed=0, device="cpu", real=real).clean
    assert torch.equal(clean[:16], real)
    assert len(clean.unique(dim=0)) == 64


def test_lower_bounds_of_times_are_printed_as_such() -> None:
    shown, data = io.StringIO(), as_data(foretold(Clock(), PLAN))
    (encoder,) = data["encoders"]
    encoder["parts"][0] |= {"at_least": True, "title": "margins"}
    encoder["parts"][1] |= {"how": "not certified: too large", "title": "radii"}
    data["at_least"] = encoder["at_least"] = True
    print_forecast(data, Console(file=shown, width=150))
    text = " ".join(shown.getvalue().split())
    assert "≥ " in text
    assert text.count("; at least ") == 2
    assert "about" not in text
    assert "radii: not certified: too large" in text


def test_what_was_not_rehearsed_is_taken_from_single_passes() -> None:
    units = UnitTimes((1.0, 3.0), (6.0, 6.0), (0.5, 0.5), (0.1, 0.1))
    pace = units.pace(Passes(forward=10, backward=5, bounds=2), "")
    assert pace.seconds == 10 * 2 + 5 * 4 + 2 * BOUND * 2
    assert pace.low == pace.high == pace.seconds  # with a gradient both rounds took as long
    assert units.pace(Passes(forward=1), "").low == 0.0  # one second or three: two standard errors are two


def test_an_encoder_that_fails_is_said_so_and_the_others_go_on() -> None:
    clock = Clock()
    broken = Encoder(nn.Linear(3, 3), mean=0.0, std=1.0, name="broken")
    plan = Plan(("broken", "slow"), "digits", MEASURES, images=64, attacked=32, batch_size=32)
    encoders = {"broken": broken, "slow": slow(clock)}
    found = forecast(plan, "nowhere", encoders=encoders, seconds=1.0, clock=clock)
    assert [one.error is None for one in found.encoders] == [False, True]


@pytest.mark.parametrize(("seconds", "workers"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (1.0, 0)])
def test_no_time_and_no_workers_are_refused(seconds: float, workers: int) -> None:
    with pytest.raises(HoldfastError, match="expected seconds above 0"):
        foretold(Clock(), PLAN, seconds=seconds, workers=workers)


def test_comparisons_grow_with_the_square(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measure that takes n² microseconds on n images, foretold for ten times the largest population that is timed."""
    clock = Clock()

    class Quadratic(BreakawayRisk):
        def observe(self, subject):
            clock.now += 1e-6 * subject.population**2
            return {}

        def score(self, table):
            return {}

    source = open_images("digits", size=64)
    whole = StandIn(tiny, source, attacked=32, seed=0, device="cpu", real=torch.randn(16, 12))
    whole.population, whole.clean = 4000, made_up(torch.randn(16, 12), 4000, 0)
    pace = Calibration(tiny, source, 8, "cpu", clock).scores(whole, {"it": Quadratic()}, 20_000)["it"]
    assert pace.seconds == pytest.approx(1e-6 * 20_000**2, rel=1e-6)


def test_made_up_representations_differ_and_keep_to_the_real_ones() -> None:
    real = torch.randn(8, 5) * torch.tensor([1.0, 2, 3, 4, 0])
    made = made_up(real, 100, 0)
    assert made.shape == (100, 5)
    assert len(made.unique(dim=0)) == 100
    assert (made - real.repeat(13, 1)[:100]).std(0)[3] > 1


def test_the_clean_pass_is_rehearsed_on_images_of_the_audit(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []
    run = Clean.run
    monkeypatch.setattr(Clean, "run", lambda self, shard: (seen.append(shard.rng.ids), run(self, shard))[1])
    source = open_images("digits", size=64)
    assert isinstance(source, ImageSet)
    rehearse(stand_in(tiny), Clean(), 64, 16, 1.0, time.perf_counter)
    assert seen == [tuple(source.ids[:16])]
    assert rehearsal.PATIENCE > 1
