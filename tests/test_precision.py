"""Searches in reduced precision: what is read out is float32, what it cost is measured, what vanishes is scaled."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan, validity_panel
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.profile import profile
from holdfast.auditing.request import AuditRequest
from holdfast.core import Attack, Encoder, HoldfastError, Images, Observation, Passes, Rng, Shard
from holdfast.core.precision import tf32
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.precision import Precision
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.adversarial_negatives import AdversarialNegatives
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.attacked_pairs import AttackedPairs
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.minimal_radii import MinimalRadii
from holdfast.parts.observations.shared.margins import clean_of
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadPlace, Failed, NotFinite, UnknownName, Unsupported
from holdfast.sources.data import open_images
from json_records import run_audit

REDUCED = ("bf16", "fp16")


def encoder(precision: str = "float32", net: nn.Module | None = None) -> Encoder:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.Flatten(),
        nn.Linear(72, 6),
    )  # fmt: skip
    return Encoder(net or layers, mean=0.4, std=0.3).prepare(precision=precision)


def images(count: int = 8) -> Images:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def shard(f: Encoder, x: Images) -> Shard:
    with torch.no_grad():
        clean = f(x)
    f.passes = Passes()
    rng = Rng(0, ids=tuple(str(i) for i in range(len(x))))
    return Shard(f, x, torch.arange(len(x)), rng, clean, lambda places: x[places])


def gradient(f: Encoder, x: Images, weight: float = 1.0) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    reps = f(x)
    return reps.detach(), torch.autograd.grad(weight * reps.square().sum(), x)[0]


@pytest.mark.parametrize("precision", REDUCED)
def test_only_passes_with_a_gradient_are_reduced(precision: str) -> None:
    x, exact, reduced = images(), encoder(), encoder(precision)
    assert torch.equal(reduced(x), exact(x))
    with torch.no_grad():
        assert torch.equal(reduced(x.clone().requires_grad_()), exact(x))
    (seen, slope), (wanted, true) = gradient(reduced, x), gradient(exact, x)
    assert seen.dtype == torch.float32
    off = float((seen - wanted).norm() / wanted.norm())
    assert 1e-5 < off < {"bf16": 0.02, "fp16": 0.003}[precision]  # it did round, and no more than its digits
    assert 1e-5 < float((slope - true).norm() / true.norm()) < 0.1
    assert reduced.passes == Passes(forward=24, backward=8)
    assert reduced.take_fingerprint() == exact.fingerprint
    with reduced.exactly():
        assert torch.equal(gradient(reduced, x)[1], true)
    assert reduced.precision == precision


ATTACKS: list[Attack] = [Pgd(5), Pgd(5, restarts=2), Apgd(6), MinimumNorm(6), Ensemble((Pgd(4), Square(5)))]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: type(attack).__name__)
@pytest.mark.parametrize("precision", REDUCED)
def test_what_is_read_out_is_float32_of_the_very_image(attack: Attack, precision: str) -> None:
    f, x = encoder(precision), images()
    with torch.no_grad():
        clean = f(x)
    goal = Untargeted().pursue(f, clean)
    readouts = (0, attack.steps)
    searched = attack(goal, x, Linf(0.1), Rng(0, ids=tuple("abcdefgh")), readouts)
    before = f.passes
    found = searched.reevaluate(goal, f)
    assert f.passes - before == Passes(forward=len(readouts) * len(x))
    exact = encoder()
    for step in readouts:
        with torch.no_grad():
            reps = exact(found.images[step])
        assert torch.equal(found.reps[step], reps)
        assert torch.equal(found.values[step], Untargeted()(reps, clean))
    assert not torch.equal(searched.reps[0], found.reps[0])  # it was needed


def test_float32_makes_nothing_again() -> None:
    f, x = encoder(), images()
    goal = Untargeted().pursue(f, f(x).detach())
    found = Pgd(2)(goal, x, Linf(0.1), Rng(0, ids=tuple("abcdefgh")))
    before = f.passes
    assert found.reevaluate(goal, f) is found
    assert f.passes == before


OBSERVATIONS: list[Observation] = [
    Attacked(Pgd(4), Linf(0.1), readouts=(2, 4)),
    AttackedPairs(attack=Apgd(3), ball=Linf(0.1), negatives=2),
    Broken(Apgd(3), Linf(0.1)),
    AdversarialNegatives(attack=Pgd(3)),
    MinimalRadii(steps=4, negatives=2),
]


@pytest.mark.parametrize("observation", OBSERVATIONS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("precision", ["float32", *REDUCED])
def test_passes_are_known_before(observation: Observation, precision: str) -> None:
    f, x = encoder(precision), images()
    observation.run(shard(f, x))
    assert f.passes == observation.passes_at(precision) * len(x)


def test_passes_in_float32_are_those_of_the_observation() -> None:
    for observation in OBSERVATIONS:
        assert observation.passes_at("float32") == observation.passes
    made = Attacked(Pgd(4), readouts=(0, 2, 4))
    assert made.passes_at("bf16") - made.passes == Passes(forward=3)


@pytest.mark.parametrize("precision", REDUCED)
def test_smallest_radii_break_in_float32(precision: str) -> None:
    """Each pass of this search decides, so all are float32: the radii are those of float32, to the bit."""
    observation, x = MinimalRadii(steps=6, negatives=2), images()
    reduced, exact = (observation.run(shard(encoder(p), x))["radius"] for p in (precision, "float32"))
    assert torch.equal(reduced, exact)


@pytest.mark.parametrize("precision", REDUCED)
def test_margins_of_pairs_are_float32(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    observation, x = AttackedPairs(attack=Pgd(3, start="random"), ball=Linf(0.1), negatives=2), images()
    looked: list[Images] = []
    here = shard(encoder(precision), x)
    call: Any = Pgd.__call__

    def kept(*args: Any) -> Any:
        found = call(*args)
        looked.append(found.images[3])
        return found

    monkeypatch.setattr(Pgd, "__call__", kept)
    seen = observation.run(here)
    exact = encoder()
    margin = observation.margins(here)
    lowest = margin(clean_of(here))
    for at in looked:
        with torch.no_grad():
            lowest = torch.minimum(lowest, margin(exact(at).double()))
    assert torch.equal(seen["margin"], lowest)


@pytest.mark.parametrize("weight", [1e-12, 1e-7, 1.0, 1e6])
def test_gradients_do_not_vanish_in_fp16(weight: float) -> None:
    """Below 2^-24 there is nothing in fp16; and what is large does not overflow."""
    x = images()
    (_, slope), (_, true) = gradient(encoder("fp16"), x, weight), gradient(encoder(), x, weight)
    assert bool((slope.flatten(1).abs().amax(1) > 0).all())
    assert float((slope - true).norm() / true.norm()) < 0.02


def test_gradients_of_images_are_scaled_each_for_itself() -> None:
    x, f, exact = images(), encoder("fp16"), encoder()
    weights = 10.0 ** torch.linspace(-18, 6, len(x))
    slopes = []
    for one in (f, exact):
        at = x.clone().requires_grad_()
        slopes.append(torch.autograd.grad((weights[:, None] * one(at)).sum(), at)[0].flatten(1))
    assert bool(((slopes[0] - slopes[1]).norm(dim=1) < 0.02 * slopes[1].norm(dim=1)).all())


def test_a_gradient_of_zero_stays_zero() -> None:
    at = images().requires_grad_()
    f = encoder("fp16")
    assert not torch.autograd.grad((0 * f(at)).sum(), at)[0].any()


class Steep(nn.Module):
    """Values in fp16's range, slopes beyond it."""

    def forward(self, x: Tensor) -> Tensor:
        seen = x.flatten(1)[:, :2] * 1.0
        seen.register_hook(lambda gradient: gradient * torch.tensor(1e6, dtype=gradient.dtype))
        return seen @ torch.eye(2, dtype=seen.dtype)


@pytest.mark.parametrize("net", [nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), Steep()], ids=["value", "slope"])
def test_what_overflows_in_fp16_is_refused_and_named(net: nn.Module) -> None:
    what = "representation" if isinstance(net, nn.Sequential) else "gradient"
    for weights in net.parameters():
        nn.init.constant_(weights, 3e4)
    with pytest.raises(NotFinite, match=rf"{what}.*bf16"):
        gradient(encoder("fp16", net=_halved(net)), images(), 1e-3)
    assert bool(gradient(encoder("bf16", net=net), images(), 1e-3)[1].isfinite().all())


def _halved(net: nn.Module) -> nn.Module:
    """Run a network's products in half also where autocast leaves them: hooks of Python see what is cast inside."""
    return net if isinstance(net, nn.Sequential) else _InHalf(net)


class _InHalf(nn.Module):
    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.half())


def test_a_second_backward_pass_is_refused() -> None:
    at = images().requires_grad_()
    reps = encoder("bf16")(at)
    torch.autograd.grad(reps.sum(), at, retain_graph=True)
    with pytest.raises(Unsupported):
        torch.autograd.grad(reps.sum(), at)


def test_an_encoder_without_gradients_has_none_in_any_precision() -> None:
    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach().flatten(1)

    assert not encoder("bf16", net=Detached())(images().requires_grad_()).requires_grad


def test_strange_outputs_are_refused_in_any_precision() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    with pytest.raises(Failed, match="tuple"):
        encoder("bf16", net=Two())(images().requires_grad_())


@pytest.mark.parametrize(
    ("precision", "device", "kind", "message"),
    [
        ("bf61", "cpu", UnknownName, r"'bf16'\?"),
        ("tf32", "cpu", Unsupported, "CUDA"),
        ("tf32", "mps", Unsupported, "CUDA"),
    ],
)
def test_precisions_that_there_are_not(precision: str, device: str, kind: type[HoldfastError], message: str) -> None:
    with pytest.raises(kind, match=message):
        Plan(("it",), "digits", (UniversalQuantile(),), precision=precision, device=device)


@pytest.mark.parametrize("before", [(False, True), (True, False)])
def test_flags_of_tf32_come_back_also_after_errors(before: tuple[bool, bool]) -> None:
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    was = matmul.allow_tf32, cudnn.allow_tf32

    def fail(allowed: bool) -> None:
        with tf32(allowed):
            assert (matmul.allow_tf32, cudnn.allow_tf32) == (allowed, allowed)
            raise ValueError("inside")

    try:
        matmul.allow_tf32, cudnn.allow_tf32 = before
        for allowed in (True, False):
            with pytest.raises(ValueError, match="inside"):
                fail(allowed)
            assert (matmul.allow_tf32, cudnn.allow_tf32) == before
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = was


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch before 2.9")
def test_the_newer_setting_of_tf32_is_overruled_and_comes_back() -> None:
    """A process that has set it alone cannot read the older one, and convolutions would inherit it."""
    script = """
import torch
from holdfast.core.precision import tf32
torch.backends.fp32_precision = "tf32"
places = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
before = [place.fp32_precision for place in places]
with tf32(False):
    print(*(place.fp32_precision for place in places))
with tf32(True):
    print(*(place.fp32_precision for place in places))
print(before == [place.fp32_precision for place in places])
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:3] == ["ieee ieee ieee", "tf32 tf32 tf32", "True"]


def audit(tmp_path: Path, precision: str, f: Encoder | None = None, **more):
    measures = (UniversalQuantile(attack=Pgd(10), ball=Linf(0.1)),)
    checks = tuple(c for c in validity_panel(measures, 8, 8, precision) if isinstance(c, Precision))
    plan = Plan(
        ("it",), "digits", measures, checks, images=24, attacked=16, batch_size=8, precision=precision, **more
    )  # fmt: skip
    made = f or Encoder(encoder().module, mean=0.4, std=0.3)
    return run_audit(plan, tmp_path, encoders={"it": made})


@pytest.mark.sweep(2)
@pytest.mark.parametrize("precision", REDUCED)
def test_an_audit_measures_what_its_precision_costs(precision: str, tmp_path: Path) -> None:
    record = audit(tmp_path, precision)
    (entry,) = record["encoders"]
    assert record["failures"] == []
    assert record["plan"]["precision"] == precision
    assert {k: entry["passes"][k] for k in ("forward", "backward", "bounds")} == entry["passes"]["predicted"]
    check = entry["checks"]["precision"]
    details = check["details"]
    assert check["status"] == "pass"
    assert details["n"] == 8
    assert 0 < details["drift median"] <= details["drift max"] < {"bf16": 0.05, "fp16": 0.01}[precision]
    assert 0 < details["objective error median"] < 0.05
    assert abs(details["gain of float32"]) < 0.02
    assert check["passes"] == {"forward": 8 * (2 + 11), "backward": 8 * 10, "bounds": 0}
    again = audit(tmp_path, precision)
    assert again["run"]["resumed_shards"] == 5
    with pytest.raises(BadPlace):
        audit(tmp_path, "float32")
    assert audit(tmp_path / "other", "float32")["encoders"][0]["checks"] == {}


def test_a_search_that_rounding_spoils_fails_the_check(tmp_path: Path) -> None:
    """Where a large constant swallows all digits, the slopes that bf16 sees are those of other places."""

    class Swallowed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            far = nn.functional.linear(x.flatten(1), torch.eye(64), torch.full((64,), 1000.0))
            return torch.sin(3 * (far.float() - 1000))

    check = audit(tmp_path, "bf16", Encoder(Swallowed(), mean=0, std=1))["encoders"][0]["checks"]["precision"]
    assert check["status"] == "fail"
    images, net = open_images("digits", images=24), Swallowed()
    x, found = images.batch(0, 8), {}
    for precision in ("float32", "bf16"):
        f = Encoder(net, mean=0, std=1).prepare(precision=precision)
        goal = Untargeted().pursue(f, f(x))
        attacked = Pgd(10)(goal, x, Linf(0.1), Rng(0, ids=tuple(images.ids[:8]))).reevaluate(goal, f)
        found[precision] = attacked.values[-1]
    gain = float((found["float32"] / found["bf16"]).median()) - 1
    assert gain > 0.1
    assert check["details"]["gain of float32"] == pytest.approx(gain, rel=1e-3)


def test_the_check_belongs_to_reduced_precision_alone() -> None:
    measures = profile("quick", Linf(0.1)).measures
    for precision, there in (("float32", False), ("bf16", True)):
        assert any(isinstance(c, Precision) for c in validity_panel(measures, 8, 8, precision)) == there
        plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile="quick", precision=precision))
        assert any(isinstance(c, Precision) for c in plan.checks) == there


def test_predictions_say_what_reduced_precision_adds() -> None:
    measures = (UniversalQuantile(attack=Pgd(10), ball=Linf(0.1)),)
    plan = Plan(("it",), "digits", measures)
    more = replace(plan, precision="bf16").predict(100) - plan.predict(100)
    readouts = sum(o.reevaluations for m in measures for o in m.observations())
    assert more == Passes(forward=100 * readouts)
    assert readouts > 0
