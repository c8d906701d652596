"""All that computes beside an encoder, on a pretended GPU: no tensors of two sides, the numbers of a CPU, no waits."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.gpu import count_waits
from benchmarks.gpu.count_waits import WAITS, per_step, setting
from benchmarks.gpu.loops import ATTACKS, CERTIFIERS, LEARNERS, Loop, Setting, margin
from benchmarks.gpu.pretend import MixedDevices, Pretended, pretended_gpu
from benchmarks.gpu.waits import DOWN, NUMBER, ROWS, UP
from torch import Tensor, nn

import holdfast
from holdfast.core import Bound, Corruption, Failure, Grid, Head, Noise, Objective, Rng, Shard, registry
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.fooled import EVERY, NEVER, Fooled
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.patch import Patch
from holdfast.runtime.errors import HoldfastError, NotFinite
from holdfast.runtime.waiting import defer_expectations, expect, move_to
from holdfast.training.loop import train
from holdfast.training.recipe_file import make_recipe

IDS = tuple("abcdef")


@pytest.fixture
def gpu() -> Iterator[Pretended]:
    with pretended_gpu() as pretended:
        yield pretended


def images(channels: int = 1, side: int = 8) -> Tensor:
    return torch.rand(len(IDS), channels, side, side, generator=torch.Generator().manual_seed(0))


def leaves(value: Any) -> list[Tensor]:
    """All tensors in what a part returns, on the CPU."""
    if isinstance(value, Tensor):
        return [value.detach().cpu()]
    if isinstance(value, dict):
        value = list(value.values())
    if hasattr(value, "__dataclass_fields__"):
        value = [getattr(value, name) for name in value.__dataclass_fields__]
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (list, tuple)) else []


def same_on_both(run: Callable[[str], Any]) -> None:
    """Whether a piece of work does on the pretended device what it does on the CPU, to the bit."""
    expected = leaves(run("cpu"))
    with pretended_gpu():
        computed = leaves(run("cuda"))
    assert expected
    assert len(computed) == len(expected)
    for ours, theirs in zip(computed, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


# --- the pretended device itself ---


def test_it_refuses_what_a_gpu_refuses(gpu: Pretended) -> None:
    here, there = torch.ones(3), torch.ones(3).to("cuda")
    assert str(there.device) == "cuda:0"
    assert there.is_cuda
    assert (there + 1.0).device == there.device
    assert (there + torch.tensor(1.0)).device == there.device  # a number may come from the host
    refused: list[Callable[[], object]] = [
        lambda: there + here,
        lambda: torch.cat([there, here]),
        lambda: torch.rand(2, generator=torch.Generator(), device="cuda"),
        lambda: torch.rand(2, generator=torch.Generator("cuda")),
        lambda: there.clone().normal_(generator=torch.Generator()),
        lambda: there[:, None].long() @ there[None].long(),
        lambda: here.gather(0, torch.zeros(1, dtype=torch.long, device="cuda")),
    ]
    for operation in refused:
        with pytest.raises(MixedDevices):
            operation()
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()
    assert torch.rand(2, generator=torch.Generator("cuda"), device="cuda").device == there.device


def test_it_computes_with_gradients_and_in_place(gpu: Pretended) -> None:
    layer = nn.Linear(3, 2).to("cuda")
    x = torch.ones(4, 3, device="cuda").requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), x)
    assert gradient.device == x.device
    assert float(gradient.abs().sum()) > 0
    zeros = torch.zeros(2, 2, device="cuda")
    zeros[0], zeros[zeros == 0] = 1.0, 2.0
    assert zeros.cpu().tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert torch.vmap(lambda row: row.sum())(zeros).tolist() == [2.0, 4.0]


def test_it_counts_each_wait_once(gpu: Pretended) -> None:
    x = torch.arange(6.0).to("cuda")
    counted: list[tuple[Callable[[], object], str | None]] = [
        (lambda: x.sum().item(), NUMBER),
        (lambda: bool((x > 1).any()), NUMBER),
        (lambda: torch.equal(x, x), NUMBER),
        (lambda: x[x > 1], ROWS),
        (lambda: x.nonzero(), ROWS),
        (lambda: x.unique(), ROWS),
        (lambda: x.clone().__setitem__(x > 1, x[:4]), ROWS),
        (lambda: x.clone().__setitem__(x > 1, 0.0), None),
        (lambda: x.tolist(), DOWN),
        (lambda: x.cpu(), DOWN),
        (lambda: torch.tensor([1.0, 2.0], device="cuda"), UP),
        (lambda: x[[0, 1]], UP),
        (lambda: x[torch.tensor([0, 1])], UP),
        (lambda: torch.ones(2).to("cuda"), UP),
        (lambda: torch.ones(2).to("cuda", non_blocking=True), UP),  # from pageable memory it waits all the same
        (lambda: torch.ones(2).pin_memory().to("cuda", non_blocking=True), None),
        (lambda: torch.where(x > 1, x, 0.0), None),
        (lambda: torch.zeros(3, device="cuda"), None),
        (lambda: x.sort().values, None),
    ]
    for number, (operation, kind) in enumerate(counted):
        gpu.kinds.clear()
        operation()
        assert gpu.kinds == Counter([kind] if kind else []), number


# --- the library on it ---


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", list(ATTACKS))
def test_attacks(name: str) -> None:
    same_on_both(lambda device: ATTACKS[name](setting(device))(6))


PATCH = Patch(0.5, share=0.15)


@pytest.mark.slow
@pytest.mark.sweep(9)
@pytest.mark.parametrize(
    ("name", "ball"),
    [
        *((name, ball) for name in ("pgd", "square", "fgsm", "ensemble") for ball in (Linf(0.1), L2(0.5))),
        ("pgd", PATCH),  # whose place all search alike
        ("square", PATCH),
        pytest.param("fgsm", PATCH, marks=pytest.mark.slow),
        pytest.param("ensemble", PATCH, marks=pytest.mark.slow),
    ],
    ids=lambda part: part if isinstance(part, str) else part.norm,
)
def test_attacks_in_each_ball(name: str, ball: Any) -> None:
    def run(device: str) -> object:
        at = setting(device)
        cls = registry.find("attacks", name)
        attack = (
            cls(tuple(registry.find("attacks", n)(steps=3) for n in ("apgd", "pgd"))) if name == "ensemble" else cls()
        )
        attack = cls(steps=4) if name in ("pgd", "square") else attack
        goal = registry.find("objectives", "untargeted")().pursue(at.encoder, at.clean)
        return attack(goal, at.x, ball, at.rng)

    same_on_both(run)


@pytest.mark.parametrize("name", [name for name in registry.names("objectives") if name != "loss"])
def test_objectives(name: str) -> None:
    tokens = {"token_drift": {"dim": 1}, "token_margin": {"dim": 1}, "segment_margin": {"dim": 1}}

    def run(device: str) -> object:
        at = setting(device)
        clean = at.clean
        at.encoder.grid = Grid(clean.shape[1], 1, 1)
        objective: Objective = registry.find("objectives", name)(**tokens.get(name, {}))
        goal = objective.pursue(at.encoder, clean, clean.roll(1, 0))
        return registry.find("attacks", "pgd")(steps=2)(goal, at.x, Linf(0.1), at.rng)

    same_on_both(run)


THREATS = [registry.find("threats", name) for name in registry.names("threats") if name != "mixture"]


@pytest.mark.parametrize("cls", [c for c in THREATS if issubclass(c, (Noise, Corruption))], ids=lambda c: c.__name__)
def test_noises_and_corruptions(cls: type) -> None:
    threat, x = cls(), images(3, 16)

    def run(device: str) -> object:
        there = x.to(device)
        rng = Rng(0, ids=IDS)
        pushed = []
        if isinstance(threat, Noise):
            pushed = [threat.push(there, rng.normal(2, threat.numbers(there)).to(there))]
        return [threat.sample(there, rng), *pushed]

    same_on_both(run)


def shard_of(at: Setting) -> Shard:
    labels = torch.arange(len(IDS)) % 2
    return Shard(
        at.encoder, at.x, torch.arange(len(IDS)), at.rng, at.clean.cpu(), lambda other: at.x[other.to(at.x.device)],
        labels=labels, read=lambda observation: {"threshold": torch.tensor([0.5])},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["nearest", "outranked", "drifted", "confused", "unmatched", "collided"])
def test_failures(name: str) -> None:
    def run(device: str) -> object:
        at = setting(device)
        failure: Failure = registry.find("failures", name)()
        shard = shard_of(at)
        reps = at.clean.roll(1, 0).double()
        event = failure.bind(shard)
        rivals = failure.rivals(shard, 2)
        extra = [] if rivals is None else [rivals.margins.weights, rivals.margins.bias]
        return [event(reps[:, None], torch.arange(len(IDS))), failure.fails_at(shard), *extra]

    same_on_both(run)


def bounds_on_both(bound: Callable[[Setting], Bound]) -> None:
    """On a device more rows are bounded together, so sums are rounded otherwise; all else is the same."""
    expected = bound(setting("cpu")).lower
    with pretended_gpu():
        computed = bound(setting("cuda")).lower.cpu()
    torch.testing.assert_close(computed, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["interval", "crown", "crown_ibp"])
def test_certifiers(name: str) -> None:
    bounds_on_both(lambda at: registry.find("certifiers", name)()(at.encoder, margin(at), at.x, Linf(0.02)))


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", list(CERTIFIERS))
def test_certifiers_that_search(name: str) -> None:
    bounds_on_both(lambda at: CERTIFIERS[name](at)(2))


def test_what_computes_beside_the_encoder_is_not_shortened(gpu: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch allows TF32 in CUDA's convolutions, of which bounds and corruptions are made, too."""

    def allowed() -> tuple[bool, bool]:
        return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32

    def heard(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            inside.append(allowed())
            return work(*args, **named)

        return call

    for cls, method in ((AlphaCrown, "lower"), (Clean, "run"), (Attacked, "run")):
        monkeypatch.setattr(cls, method, heard(getattr(cls, method)))
    inside: list[tuple[bool, bool]] = []
    before = allowed()
    at = setting("cuda")
    AlphaCrown(inside=0, steps=1)(at.encoder, margin(at), at.x, Linf(0.01))
    assert inside == [(False, False)]
    holdfast.audit(
        "zoo:digits-simclr",
        "digits",
        images=4,
        measures="breakaway_risk",
        device="cuda",
        examined=1,
        queries=4,
        budget="none",
        quiet=True,
    )
    assert len(inside) > 2
    assert set(inside) == {(False, False)}
    assert allowed() == before == (True, False)


@pytest.mark.parametrize("name", list(LEARNERS))
def test_learners(name: str) -> None:
    def run(device: str) -> object:
        learned: Any = LEARNERS[name](setting(device))(2)
        return learned.chance

    same_on_both(run)


def test_the_random_numbers_of_images_are_those_of_the_cpu_but_for_noise_on_whole_images(gpu: Pretended) -> None:
    rng, cuda = Rng(0, ids=IDS), torch.device("cuda")
    assert torch.equal(move_to(rng.normal(3), cuda).cpu(), rng.normal(3))
    counted = rng.normal_on(cuda, 3)
    assert counted.device.type == "cuda"
    assert not torch.equal(counted.cpu(), rng.normal(3))
    assert torch.equal(rng.at(IDS[:1]).normal_on(cuda, 3).cpu(), counted[:1].cpu())


# --- waits ---


@pytest.mark.parametrize(
    "name",
    [*ATTACKS, *LEARNERS, *(pytest.param(name, marks=[pytest.mark.slow] * ("leaf" in name)) for name in CERTIFIERS)],
)
def test_steps_do_not_wait(name: str, gpu: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a loop never, an epoch of a learner once: its success is read."""
    if name in CERTIFIERS:  # whose steps are dear, and all alike
        monkeypatch.setattr(count_waits, "FEW", 2)
    loop: Loop = {**ATTACKS, **LEARNERS, **CERTIFIERS}[name]
    assert per_step(name, loop(setting("cuda")), gpu) == WAITS.get(name, 0)


@pytest.mark.slow
def test_robust_accuracy_waits_once_in_many_passes(gpu: Pretended) -> None:
    """While images stand; what is fooled is what a CPU finds."""

    def run(device: str, steps: int, radius: float) -> dict[str, Tensor]:
        at, random = setting(device), torch.Generator().manual_seed(0)
        head = Head(torch.randn(3, at.clean.shape[1], generator=random), torch.zeros(3), torch.arange(3))
        seen = replace(at.shard, labels=head.scores(at.clean.cpu()).argmax(1), head=lambda probe: head)
        attacks, objectives = (Pgd(steps), Square(steps)), (CrossEntropy(), ClassMargin())
        return Fooled(attacks, objectives, ball=Linf(radius)).run(seen)

    counts = []
    for steps in (2 * EVERY, 4 * EVERY):
        gpu.kinds.clear()
        assert (run("cuda", steps, 1e-6)["broken_by"] == NEVER).all()
        counts.append(gpu.kinds[NUMBER] + gpu.kinds[ROWS] + gpu.kinds[DOWN])
    assert counts[1] - counts[0] == 4  # two of either attack
    for radius in (0.02, 0.1, 0.5):
        assert torch.equal(run("cuda", 20, radius)["broken_by"], run("cpu", 20, radius)["broken_by"])


def test_what_is_not_finite_is_said_at_the_end_and_before_what_follows_from_it(gpu: Pretended) -> None:
    good, bad = torch.ones(3, device="cuda") > 0, torch.arange(3).to("cuda") > 0

    def error(count: int, total: int) -> HoldfastError:
        return HoldfastError(f"{count} of {total}")

    def work(*flags: Tensor) -> None:
        for fine in flags:
            expect(fine, error)
        reached.append("the end")
        raise IndexError("which NaN has led to")

    reached: list[str] = []
    with pytest.raises(HoldfastError, match="1 of 3"):
        defer_expectations()(work)(good, bad, ~good)
    assert reached == ["the end"]
    with pytest.raises(HoldfastError, match="1 of 3"):  # nothing is open
        work(bad)
    with pytest.raises(HoldfastError, match="1 of 3"):  # on a CPU nobody waits
        defer_expectations()(work)(bad.cpu())
    assert reached == ["the end"]
    with defer_expectations():
        expect(good, error)


def test_attacks_say_so_at_their_end(gpu: Pretended) -> None:
    at = setting("cuda")

    def goal(x: Tensor) -> tuple[Tensor, Tensor]:
        values = x.flatten(1).sum(1) + torch.tensor([0, np.nan, 0, 0, np.inf, 0]).to("cuda")
        return values, x.flatten(1)

    with pytest.raises(NotFinite, match="2 of 6"):
        registry.find("attacks", "pgd")(steps=3)(goal, at.x, Linf(0.1), at.rng)


def test_training_is_that_of_the_cpu_and_waits_once_a_step(tmp_path: Path) -> None:
    state = pytest.importorskip("accelerate.state")
    pytest.importorskip("lightly")

    def losses(device: str, steps: int) -> list[float]:
        state.AcceleratorState._reset_state(True)  # which keeps the first device of a process
        table = {"encoder": "zoo:digits_cnn", "data": "digits?part=train", "steps": steps, "batch_size": 16}
        recipe = make_recipe({**table, "method": {"name": "simclr"}, "device": device})
        return [row["loss"] for row in train(recipe, tmp_path / f"{device} {steps}").rows]

    expected, downs = losses("cpu", 2), []
    for steps in (2, 4):
        with pretended_gpu(trains=True) as gpu:
            computed = losses("cuda", steps)
            downs.append(gpu.kinds[DOWN] + gpu.kinds[NUMBER] + gpu.kinds[UP])
        assert steps == 4 or computed == expected
    state.AcceleratorState._reset_state(True)
    assert (downs[1] - downs[0]) / 2 == 1  # rows are counted in lightly's loss
