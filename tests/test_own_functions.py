"""Functions of a user's own as measures and losses: what they give, what a record tells of them, what is refused."""

import io
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import holdfast
import registered
from holdfast import HoldfastError
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder, Observation, Rng, registry
from holdfast.core.function_fingerprint import fingerprint
from holdfast.numerics.geometry import pairwise
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Failed, Mismatch, UnknownName, Unsupported

pytestmark = pytest.mark.usefixtures("own_parts_forgotten")

IMAGES = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))
REPS = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(1))
FEW: dict[str, Any] = {"images": 12, "attacked": 8, "eps": 0.1, "budget": "none", "quiet": True}


def moved(clean: Tensor, attacked: Tensor) -> Tensor:
    """How far does a representation move?"""
    return (clean - attacked).norm(dim=1)


class Seen:
    """What was observed of eight images whose representations are `REPS`."""

    attacked = 8

    def read(self, observation: Observation) -> dict[str, Tensor]:
        if isinstance(observation, Clean):
            return {"reps": REPS[0]}
        assert isinstance(observation, Attacked)
        return {f"reps@{step}": REPS[1] for step in observation.steps}


def observed(function, **options) -> dict[str, Tensor]:
    handle = holdfast.measure(function, name="it", **options)
    return registry.part("measures", handle["name"]).observe(Seen())


def searched(network: Encoder, function) -> Tensor:
    clean = network(IMAGES)
    goal = holdfast.loss(function, name="it").pursue(network, clean, clean.roll(1, 0))
    rng = Rng(0, ids=tuple(map(str, range(len(IMAGES)))))
    return Pgd(3)(goal, IMAGES, Linf(0.1), rng, (0, 3)).values


def planned(*measures) -> tuple:
    return make_plan(AuditRequest(["zoo:digits-simclr"], "digits", eps=0.1, measures=measures)).measures


@pytest.mark.slow
def test_a_function_measures_what_the_attack_finds(tiny: Encoder) -> None:
    turned = holdfast.measure(
        lambda clean, attacked: 1 - torch.cosine_similarity(clean, attacked),
        name="turned",
        title="Turned",
        statistic="median",
        attack="pgd[steps=2]",
        loss=lambda reps, clean: (reps - clean).abs().sum(1),
    )
    short = {"settings": ["*.attack=pgd[steps=2]"], **FEW}
    record = holdfast.audit(tiny, IMAGES, measures=[moved, turned, "universal_quantile"], **short)
    assert record.failures == ()
    drift, score = record.to_pandas("universal_quantile")["drift@2"].dropna(), record["moved"]
    assert score.value == pytest.approx(drift.mean(), rel=1e-5)
    assert score.low < score.value < score.high
    entry = record.data["encoders"][0]["measures"]["moved"]
    assert (entry["question"], entry["better"]) == ("How far does a representation move?", "lower")
    assert entry["part"]["code"] == fingerprint(moved)
    assert record.data["encoders"][0]["measures"]["turned"]["title"] == "Turned"
    assert 0 < record["turned"].value < 2
    twice = holdfast.audit({"a": tiny, "b": tiny}, IMAGES, measures=turned, **short)
    (pair,) = holdfast.compare(twice).data["measures"]["turned"]["pairs"]
    assert pair["difference"]["value"] == 0


def test_the_ball_is_the_audits_unless_it_is_written() -> None:
    anywhere, there = holdfast.measure(moved), holdfast.measure(moved, name="there", ball="linf[radius=4/255]")
    assert [measure.ball for measure in planned(anywhere, there)] == [Linf(0.1), Linf(4 / 255)]
    (changed,) = planned("there[attack.steps=3]")
    assert (changed.attack, changed.ball) == (Apgd(3), Linf(4 / 255))
    (changed,) = planned("there[radius=0.2]")
    assert changed.ball == Linf(0.2)


def test_a_third_argument_is_a_target() -> None:
    table = observed(lambda clean, attacked, target: (target - REPS[0][[1, 0, 3, 2, 5, 4, 7, 6]]).norm(dim=1))
    assert table["pair"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table["value@50"].max() == 0
    part = registry.part("measures", "it")
    assert part.objective.needs_target
    assert part.score(table)["50 steps"].n == 4


def test_decorated_functions_are_functions_still() -> None:
    @holdfast.measure(better="higher", unit="similarity")
    def alike(clean, attacked):
        return torch.cosine_similarity(clean, attacked)

    @holdfast.loss
    def apart(reps, clean):
        return (reps - clean).abs().sum(1)

    assert torch.equal(alike(*REPS), torch.cosine_similarity(*REPS))
    assert torch.equal(apart(*REPS), (REPS[0] - REPS[1]).abs().sum(1))
    (measure,) = planned({"name": "alike", "objective": apart})
    assert (measure.better, measure.unit, measure.objective) == ("higher", "similarity", apart)


def test_shares_are_shares() -> None:
    observed(lambda clean, attacked: attacked[:, 0] > 0, statistic="share")
    part = registry.part("measures", "it")
    score = part.score(part.observe(Seen()))["50 steps"]
    assert score.value == (REPS[1][:, 0] > 0).double().mean()
    assert "exact" in score.interval


@pytest.mark.parametrize(
    ("function", "options", "kind", "why"),
    [
        (lambda clean, attacked: (clean - attacked).norm(), {}, Failed, r"\[8\].*\[\]"),
        (lambda clean, attacked: attacked, {}, Failed, r"\[8, 5\]"),
        (lambda clean, attacked: 1.0, {}, Failed, r"got 1\.0"),
        (lambda clean, attacked: attacked.sum(1).numpy(), {}, Failed, "ndarray"),
        (lambda clean, attacked: attacked.sum(1) / 0, {}, Failed, "8 of 8"),
        (lambda clean, attacked: torch.fft.fft(attacked)[:, 1], {}, Failed, "complex64"),
        (lambda clean, attacked: attacked[9], {}, Failed, "IndexError"),
        (lambda clean, attacked: torch.rand(len(attacked)), {}, Failed, "seed"),
        (lambda clean, attacked: attacked.mul_(2).sum(1), {}, Failed, "clone"),
        (lambda clean, attacked: attacked.sum(1), {"unit": "share"}, Failed, "ratio"),
        (lambda clean, attacked: attacked.sum(1), {"statistic": "share"}, Failed, "mean"),
        (lambda clean: clean, {}, BadValue, r"\(clean\)"),
        (lambda clean, attacked, *, k: clean, {}, BadValue, r"\*, k"),
        (lambda clean, attacked: clean, {"better": "up"}, BadValue, "'up'"),
        (lambda clean, attacked: clean, {"attack": "agpd"}, UnknownName, r"'apgd'\?"),
        (lambda clean, attacked: clean, {"loss": "cross_entropy"}, BadValue, "CrossEntropy"),
        (lambda clean, attacked, target: clean, {"loss": "untargeted"}, BadValue, "targeted"),
    ],
)
def test_what_is_no_measure_is_refused_in_one_line(
    function, options: dict[str, Any], kind: type[HoldfastError], why: str
) -> None:
    with pytest.raises(kind, match=why) as refused:
        observed(function, **options)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("function", "kind", "why"),
    [
        (lambda reps, clean: (reps - clean).sum(), Failed, r"\[12\].*\[\]"),
        (lambda reps, clean: (reps - clean).detach().sum(1), Failed, "gradient"),
        (lambda reps, clean: (reps - clean).sum(1) / (reps - clean).norm(), Failed, "batch"),
        (lambda reps, clean: (reps - reps).square().sum(1).sqrt(), Failed, "12 of"),
        (lambda reps, clean: clean.add_(1).sum(1), Failed, "clone"),
        (lambda reps: reps, BadValue, r"\(reps\)"),
    ],
)
def test_what_is_no_loss_is_refused_in_one_line(tiny: Encoder, function, kind: type[HoldfastError], why: str) -> None:
    with pytest.raises(kind, match=why) as refused:
        searched(tiny, function)
    assert len(str(refused.value).splitlines()) == 1


def test_attacks_climb_a_loss_with_and_without_targets(tiny: Encoder) -> None:
    for function in (
        lambda reps, clean: (reps - clean).square().sum(1),
        lambda reps, clean, target: -(reps - target).square().sum(1),
        lambda reps, clean, target=None: -(reps - target).square().sum(1),
    ):
        values = searched(tiny, function)
        assert (values[-1] > values[0]).all()
    assert not holdfast.loss(lambda reps, clean, k=2: reps.sum(1) * k, name="it").takes_target


def test_one_name_is_one_function() -> None:
    first, second = (holdfast.measure(lambda clean, attacked, k=k: clean.sum(1) * k) for k in (1, 2))
    assert second["name"] == "own_measure"
    with pytest.raises(BadValue, match="own_measure"):
        planned(first, second)
    one, _ = (holdfast.loss(lambda reps, clean, k=k: reps.sum(1) * k) for k in (1, 2))
    with pytest.raises(BadValue, match="own_loss"):
        registry.spec(one)
    for name in ("breakaway_risk", "two words"):
        with pytest.raises(BadValue):
            holdfast.measure(moved, name=name)
    with pytest.raises(BadValue, match=r"holdfast\.measure"):
        holdfast.measure(partial(moved))
    with pytest.raises(BadValue, match=r"holdfast\.loss"):
        planned({"name": "universal_quantile", "objective": moved})


def test_other_code_makes_other_shards_and_no_number() -> None:
    before = registry.spec(Attacked(objective=holdfast.loss(lambda reps, clean: (reps - clean).sum(1), name="it")))
    after = registry.spec(Attacked(objective=holdfast.loss(lambda reps, clean: (reps - clean).sum(1) * 2, name="it")))
    assert before != after  # what shards are named by
    assert registry.build(after).objective == registry.part("objectives", "it")
    with pytest.raises(Mismatch, match="code"):
        registry.build(before)


def test_other_processes_get_names_and_no_code() -> None:
    part = registry.part("measures", holdfast.measure(moved)["name"], attack=Pgd(3))
    sent = pickle.dumps(part)
    assert pickle.loads(sent) == part
    registered.forget()
    with pytest.raises(Unsupported, match="moved"):
        pickle.loads(sent)


FACTOR = 2


def _helper(x):
    return x + 1


def _reads(x):
    # a remark
    return _helper(x) * FACTOR


def test_fingerprints_tell_whatever_may_change_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(_reads)
    assert before == fingerprint(_reads)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    after = fingerprint(_reads)
    monkeypatch.setitem(globals(), "_helper", lambda x: x + 2)
    assert len({before, after, fingerprint(_reads)}) == 3

    def closed(value, default=None):
        return fingerprint(lambda x, y=default: (x, value, y))

    network = nn.Linear(2, 2)
    others = [1, 1.0, True, "1", (1,), [1], {1: 2}, {1}, torch.ones(2), torch.zeros(2), torch.ones(1, 2), network, nn]
    digits = [closed(value) for value in others]
    assert len({*digits, closed(1, 1)}) == len(others) + 1
    assert digits == [closed(value) for value in others]
    with torch.no_grad():
        network.weight += 1
    assert closed(network) != digits[others.index("1") + 8]
    with pytest.raises(Unsupported, match="StringIO"):
        closed(io.StringIO())


def test_remarks_and_decorators_are_not_code(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {
        "plain": "def f(x):\n    return x + 1\n",
        "remarked": "def f( x ):\n    # why\n    return x+1\n",
    }.items():
        (tmp_path / f"it_is_{name}.py").write_text(text)
    import it_is_plain  # pyright: ignore[reportMissingImports]
    import it_is_remarked  # pyright: ignore[reportMissingImports]

    assert fingerprint(it_is_plain.f) == fingerprint(it_is_remarked.f)


def test_a_measure_may_see_the_population() -> None:
    """By name, beside a target or without one."""

    def nearest(clean: Tensor, attacked: Tensor, population: Tensor) -> Tensor:
        return torch.cdist(attacked, population).amin(1)

    (values,) = (table for key, table in observed(nearest).items() if key.startswith("value"))
    torch.testing.assert_close(values, torch.cdist(REPS[1], REPS[0]).amin(1).double())

    def beside(clean: Tensor, attacked: Tensor, target: Tensor, population: Tensor) -> Tensor:
        return (attacked - target).norm(dim=1) + len(population)

    table = observed(beside)
    assert float(table[[key for key in table if key.startswith("value")][-1]].min()) > 8


def weighted(a: Tensor, b: Tensor) -> Tensor:
    """Differences, of which the first count most."""
    return ((a - b).abs() / torch.arange(1, a.shape[-1] + 1).to(a)).sum(-1)


def test_a_function_is_a_divergence_wherever_one_stands(tiny: Encoder) -> None:
    measure = BreakawayRisk(Pgd(2), divergence=weighted)  # pyright: ignore[reportArgumentType]
    assert measure == BreakawayRisk(Pgd(2), divergence=weighted)  # pyright: ignore[reportArgumentType] the same part
    assert str(measure.divergence) == "weighted"
    spec = registry.spec(measure)
    assert spec["divergence"]["code"] == fingerprint(weighted)
    assert registry.build(spec) == measure
    for asked in ("breakaway_risk[divergence=weighted]", {"name": "breakaway_risk", "divergence": weighted}):
        (planned_measure,) = planned(asked)
        assert planned_measure.divergence == measure.divergence
    reps, bank = REPS
    assert torch.equal(
        pairwise.pairwise(reps, bank, measure.divergence), weighted(reps.double()[:, None], bank.double())
    )
    apart = weighted(reps.double()[:, None], bank.double())
    nearer = (apart < apart.diagonal()[:, None]).sum(1)
    assert torch.equal(pairwise.closer(reps, bank, torch.arange(8), measure.divergence)[0], nearer)
    record = holdfast.audit(tiny, IMAGES, measures={"name": "breakaway_risk", "divergence": weighted}, **FEW)
    assert record["breakaway_risk"] is not None


@pytest.mark.parametrize("decorator", ["measure", "loss", "divergence"])
def test_a_function_without_a_name_asks_its_own_decorator_for_one(decorator: str) -> None:
    with pytest.raises(BadValue) as refused:
        getattr(holdfast, decorator)(partial(torch.cosine_similarity, dim=1))
    assert str(refused.value).startswith(f"holdfast.{decorator}: expected a function with a name")
    assert f"holdfast.{decorator}(..., name='my_name')" in str(refused.value)


@pytest.mark.parametrize(
    ("function", "kind", "why"),
    [
        (lambda a, b: (a - b).sum(), Failed, r"\[8\]"),
        (lambda a, b: [0.0] * len(a), Failed, "pair"),
        (lambda a, b: (a - b).sum(-1), Failed, "signed=True"),
        (lambda a, b: (a - b).abs().sum(-1) * torch.nan, Failed, "8 of 8"),
        (lambda a, b: torch.rand(len(a)), Failed, "seed"),
        (lambda a, b: (a - b).relu().sum(-1), Failed, "symmetric=False"),
        (lambda a, b: (a - b).abs().sum(-1) / (a - b).abs().mean(), Failed, "pairs"),
        (lambda a: a.sum(-1), BadValue, r"\(a, b\)"),
        (lambda a, b: a.zero_().sum(-1), Failed, "clone"),
    ],
)
def test_what_is_no_divergence_is_refused_in_one_line(function, kind: type[HoldfastError], why: str) -> None:
    with pytest.raises(kind, match=why) as refused:
        pairwise.closer(*REPS, torch.arange(8), holdfast.divergence(function, name="it"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "function", [lambda a, b: (a - b).relu().sum(-1), lambda a, b: (a - b).abs().sum(-1) / (a - b).abs().mean()]
)
def test_what_is_no_divergence_is_refused_among_the_pairs_of_one_population(function) -> None:
    """Where each image's distance from itself is 0 either way."""
    with pytest.raises(Failed):
        pairwise.near(REPS[1], torch.tensor([1.0]), holdfast.divergence(function, name="it"))


def test_an_attack_follows_no_divergence_without_a_gradient() -> None:
    bits = holdfast.divergence(lambda a, b: ((a > 0) != (b > 0)).sum(-1), name="bits")
    with pytest.raises(Failed, match="bits"):
        Untargeted(bits)(REPS[0].clone().requires_grad_(), REPS[1])
    assert bits(*REPS).tolist() == registry.part("divergences", "hamming")(*REPS).tolist()
