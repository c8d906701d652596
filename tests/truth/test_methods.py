"""Pre-training methods against losses written from their formulas, and what they may and may not change."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import losses_by_hand as by_hand
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tiny_students import BATCH, LABELS, SIZE, SMALL, made, moved, pictures, same, snapshot, student_of, views_of
from torch import Tensor, nn

from holdfast.core import Batch, EncodedView, Encoder, Facts, Method, Rng, Student, registry
from holdfast.core.student import spread
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.methods.shared.targets import momentum_at
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Failed, Mismatch, Missing, NotEnough, UnknownName
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.storage.run_folder import Store
from holdfast.training import checkpoint, loop
from holdfast.training.adversary import Adversary
from holdfast.training.checkpoint import tensors_of
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe
from holdfast.workflows.harden.plan import Hardening

EIGHT = torch.rand(SIZE, 1, 8, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

ATTACK = Adversary(Linf(0.1), Pgd(steps=3, step_size=0.03, keep="last"), None)

every_method = pytest.mark.parametrize("name", SMALL)


# --- (a) losses ---


def random_views(student: Student, number: int, dim: int = 6) -> list[EncodedView]:
    """Return what a method might have seen: a part that a view does not play is left out."""
    numbers = torch.randn(number, 3, SIZE, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    views = []
    for view, (rep, out, target) in enumerate(numbers):
        online, aimed = student.predicts(view), student.is_target(view)
        views.append(EncodedView(rep if online else None, out if online else None, target if aimed else None))
    return views


def expected(name: str, student: Student, method: Method, views: Sequence[EncodedView]) -> float:
    outs = [None if view.out is None else view.out.numpy() for view in views]
    targets = [None if view.target is None else view.target.numpy() for view in views]
    unread = ("hidden", "dim", "bottleneck", "batchnorm", "teacher", "bounded")
    asked = {field.name: getattr(method, field.name) for field in fields(method) if field.name not in unread}
    asked.pop("momentum", None)
    match name:
        case "simclr" | "barlow_twins" | "vicreg":
            return getattr(by_hand, name)(outs, **asked)
        case "supcon":
            return by_hand.supcon(outs, LABELS.numpy(), **asked)
        case "supervised":
            assert views[0].rep is not None
            return by_hand.supervised(views[0].rep.numpy(), outs[0], LABELS.numpy(), method.uniformity)
        case "moco_v2":
            return by_hand.moco_v2(outs, targets, tensors_of(student)["queue"].numpy(), method.temperature)
    return getattr(by_hand, name)(outs, targets, **asked)


@pytest.mark.parametrize(
    ("name", "number", "changes"),
    [(name, 1 if name == "supervised" else 2, {}) for name in SMALL]
    + [(name, 3, {}) for name in ("simclr", "byol", "moco_v3", "simsiam", "barlow_twins", "vicreg", "supcon")]
    + [("self_distillation", 2, {"divergence": "cosine"}), ("supervised", 1, {"uniformity": 0.0})],
)
def test_losses_are_those_of_the_papers(name: str, number: int, changes: dict[str, object]) -> None:
    student, method = student_of(name, **changes), made(name, **changes)
    views = random_views(student, number, 3 if name == "supervised" else 6)
    assert student.loss(views, BATCH).item() == pytest.approx(expected(name, student, method, views), rel=1e-9)


def test_an_image_alone_with_its_class_is_pulled_by_its_own_view_only() -> None:
    student = student_of("supcon")
    views = random_views(student, 2)
    alone = Batch(torch.arange(SIZE), torch.arange(SIZE))
    outs = [view.out.numpy() for view in views if view.out is not None]
    assert student.loss(views, alone).item() == pytest.approx(by_hand.simclr(outs, 0.1), rel=1e-9)


# --- (b) gradients ---


@every_method
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    student = student_of(name)
    views, roles, step = views_of(student), range(student.views), 1e-6
    held = [None if view.target is None else view.target.detach() for view in student.see(views, roles)]

    def value() -> float:  # targets stand still: no gradient passes through them
        seen = [EncodedView(v.rep, v.out, target) for v, target in zip(student.see(views, roles), held, strict=True)]
        return student.loss(seen, BATCH).item()

    weights = [weight for weight in student.parameters() if weight.requires_grad]
    directions = [torch.randn(w.shape, generator=torch.Generator().manual_seed(2), dtype=w.dtype) for w in weights]
    slopes = []
    with torch.no_grad():
        for weight, direction in zip(weights, directions, strict=True):
            weight.add_(step * direction)
            above = value()
            weight.sub_(2 * step * direction)
            slopes.append((above - value()) / (2 * step))
            weight.add_(step * direction)
    student(views, [], BATCH).loss.backward()
    found = [float((w.grad * d).sum()) if w.grad is not None else 0.0 for w, d in zip(weights, directions, strict=True)]
    assert max(map(abs, found)) > 1e-3
    assert found == pytest.approx(slopes, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["byol", "moco_v2", "moco_v3", "self_distillation", "simsiam"])
def test_targets_have_no_gradient(name: str) -> None:
    student = student_of(name)
    targets = [view.target for view in student.see(views_of(student), range(student.views))]
    assert [t is not None for t in targets] == [student.is_target(view) for view in range(student.views)]
    assert not any(t.requires_grad for t in targets if t is not None)


# --- (c) twins, queues, and nothing else ---


@pytest.mark.parametrize(
    ("name", "momentum"), [("byol", 1 - 0.1 * (1 + 0.5) / 2), ("moco_v3", 1 - 0.1 * (1 + 0.5) / 2), ("moco_v2", 0.9)]
)
def test_a_twin_follows(name: str, momentum: float) -> None:
    student = student_of(name)
    assert student.twin is not None
    moved(student)
    moved(student.twin)
    before, fast = snapshot(student.twin), snapshot(nn.ModuleList([student.encoder, student.projector]))
    student.after_step(1 / 3)  # cos(π/3) = 1/2
    after = snapshot(student.twin)
    for key, _ in student.twin.named_parameters():
        torch.testing.assert_close(after[key], momentum * before[key] + (1 - momentum) * fast[key], rtol=1e-12, atol=0)
        assert not torch.equal(after[key], before[key])
    assert same(fast, snapshot(nn.ModuleList([student.encoder, student.projector])))


def test_momentum_rises_to_1() -> None:
    assert [momentum_at(0.9, progress) for progress in (0, 0.5, 1)] == pytest.approx([0.9, 0.95, 1])


@pytest.mark.parametrize("size", [10, 4, 3, 40])
def test_the_queue_holds_the_last_keys(size: int) -> None:
    student = student_of("moco_v2", queue=size)
    start = tensors_of(student)["queue"].clone()
    torch.testing.assert_close(start.norm(dim=1), torch.ones(size, dtype=torch.float64), rtol=1e-6, atol=0)
    batches = [[EncodedView(None, None, 5 * torch.randn(4, 6, dtype=torch.float64))] for _ in range(3)]
    for batch in batches:
        student.remember(batch, BATCH)
    newest = [F.normalize(view.target, dim=1) for (view,) in reversed(batches) if view.target is not None]
    torch.testing.assert_close(tensors_of(student)["queue"], torch.cat([*newest, start])[:size])


def test_only_training_fills_the_queue() -> None:
    student = student_of("moco_v2")
    views, start = views_of(student), tensors_of(student)["queue"].clone()
    student.eval()
    student(views, [], BATCH)
    assert torch.equal(tensors_of(student)["queue"], start)
    student.train()
    student(views, views[:1], BATCH, 0.0, 1.0)
    assert student.twin is not None
    keys = F.normalize(student.twin[1](student.twin[0](views[1])), dim=1)
    torch.testing.assert_close(tensors_of(student)["queue"], torch.cat([keys, start])[:10])


def test_the_queue_and_the_twin_survive_a_checkpoint(tmp_path: Path) -> None:
    student, other = student_of("moco_v2"), student_of("moco_v2")
    student(views_of(student), [], BATCH)
    student.after_step(0.5)
    assert not same(snapshot(student), snapshot(other))
    checkpoint.write(Store(tmp_path), student, {"recipe": "it"})
    kept = checkpoint.read(tmp_path, "it")
    assert kept is not None
    checkpoint.restore(other, kept["tensors"])
    assert same(snapshot(student), snapshot(other))


def test_what_an_encoder_is_distilled_from_stays() -> None:
    student = student_of("self_distillation", batchnorm=True)
    assert student.twin is not None
    before = snapshot(student.twin)
    student.eval()
    student.train()
    student(views_of(student), pictures(1, 5), BATCH).loss.backward()
    student.after_step(0.5)
    assert same(before, snapshot(student.twin))
    assert not any(module.training for module in student.twin.modules())
    assert student.encoder.module.training
    assert {name.split(".")[0] for name, value in student.named_parameters() if value.requires_grad} == {"encoder"}


@every_method
def test_attacks_on_a_loss_raise_it_and_leave_everything_untouched(name: str) -> None:
    student = student_of(name, batchnorm=True)
    views, rng = views_of(student), Rng(0).at([str(i) for i in range(SIZE)])
    before, modes = snapshot(student), [module.training for module in student.modules()]
    (attacked,) = ATTACK.disturb(student, views, BATCH, rng)
    assert same(before, snapshot(student))
    assert modes == [module.training for module in student.modules()]
    assert all(value.grad is None for value in student.parameters())
    assert 0.02 < (attacked - views[0]).abs().max().item() <= 0.1 + 1e-9
    student.eval()
    assert student(views, [attacked], BATCH).attacked > student(views, [views[0]], BATCH).attacked
    student.loss(student.see(views, range(student.views)), BATCH)
    assert same(before, snapshot(student))


# --- heads, and who encodes what ---

HEADS = {  # widths of the linear layers of projector and predictor; BatchNorm layers of both
    "simclr": ("5-8-6", "", 0),
    "byol": ("5-8-6", "6-8-6", 2),
    "moco_v2": ("5-8-6", "", 0),
    "moco_v3": ("5-8-8-6", "6-8-6", 5),
    "simsiam": ("5-8-8-6", "6-4-6", 4),
    "barlow_twins": ("5-8-8-6", "", 2),
    "vicreg": ("5-8-8-6", "", 2),
    "supcon": ("5-8-6", "", 0),
    "supervised": ("5-3", "", 0),
    "self_distillation": ("", "", 0),
}


def widths(head: nn.Module) -> str:
    layers = [module for module in head.modules() if isinstance(module, nn.Linear)]
    sizes = [layer.in_features for layer in layers[:1]] + [layer.out_features for layer in layers]
    return "-".join(map(str, sizes))


@every_method
def test_heads_are_those_of_the_papers(name: str) -> None:
    student = student_of(name)
    heads = nn.ModuleList([student.projector, student.predictor])
    norms = sum(isinstance(module, nn.BatchNorm1d) for module in heads.modules())
    assert (widths(student.projector), widths(student.predictor), norms) == HEADS[name]
    rep = torch.randn(SIZE, 5, dtype=torch.float64)
    out, target = student.heads(rep, None if student.twin is None else rep)
    projected = student.projector(rep)
    assert out is not None
    torch.testing.assert_close(out, student.predictor(projected))
    aimed = projected if student.twin is None else student.twin[1](rep)
    torch.testing.assert_close(target, aimed)
    assert all(value.requires_grad != key.startswith("twin.") for key, value in student.named_parameters())


@every_method
def test_no_view_is_encoded_in_vain(name: str) -> None:
    student = student_of(name)
    student(views_of(student), [], BATCH)
    one_sided = name in ("supervised", "moco_v2", "self_distillation")
    assert student.encoder.passes.forward == SIZE * (1 if one_sided else 2)
    if student.twin is not None:
        (twin,) = (module for module in student.twin.modules() if isinstance(module, Encoder))
        assert twin.passes.forward == SIZE * (1 if one_sided else 2)


# --- (d) adversarial training ---


def looked_at(student: Student, x: Tensor, role: int) -> EncodedView:
    """Return what a method sees of one view, encoded alone."""
    rep = student.encoder(x) if student.predicts(role) else None
    twin = student.twin[0](x).detach() if student.twin is not None and student.is_target(role) else None
    return EncodedView(rep, *student.heads(rep, twin))


@every_method
@pytest.mark.parametrize("clean", [0.7, 0.0])
def test_clean_and_attacked_losses_are_weighed(name: str, clean: float) -> None:
    student = student_of(name)
    views, attacked = views_of(student), pictures(2, 7)
    seen = [looked_at(student, x, role) for role, x in enumerate(views)]
    plain = student.loss(seen, BATCH).item()
    worst = [student.loss([looked_at(student, x, 0), *seen[1:]], BATCH).item() for x in attacked]
    outcome = student(views, attacked, BATCH, clean, 1.3)
    assert outcome.loss.item() == pytest.approx(clean * plain + 1.3 * sum(worst) / 2, rel=1e-9)
    assert outcome.attacked.item() == pytest.approx(sum(worst) / 2, rel=1e-9)


def clean_and_attacked() -> tuple[list[Tensor], Tensor]:
    return pictures(2), pictures(1, 9)[0]


def test_moco_v2_is_listing_1() -> None:
    student = student_of("moco_v2")
    (x_q, x_k), x_adv = clean_and_attacked()
    queue, n = tensors_of(student)["queue"].clone(), SIZE
    assert student.twin is not None

    def f_q(x: Tensor) -> Tensor:
        return F.normalize(student.projector(student.encoder(x)), dim=1)

    q = torch.cat([f_q(x_q), f_q(x_adv)])
    k = F.normalize(student.twin[1](student.twin[0](x_k)), dim=1).detach()
    l_pos = torch.bmm(q.view(2 * n, 1, 6), torch.cat([k, k]).view(2 * n, 6, 1)).view(2 * n, 1)
    logits = torch.cat([l_pos, q @ queue.T], 1)
    listed = F.cross_entropy(logits / 0.1, torch.zeros(2 * n, dtype=torch.long))
    assert student([x_q, x_k], [x_adv], BATCH, 0.5, 0.5).loss.item() == pytest.approx(listed.item(), rel=1e-9)
    torch.testing.assert_close(tensors_of(student)["queue"][:n], k)


def test_moco_v3_is_listing_2() -> None:
    student = student_of("moco_v3")
    (x_0, x_1), x_adv = clean_and_attacked()
    views = [looked_at(student, x, 0) for x in (x_0, x_1, x_adv)]
    (q_0, q_1, q_adv), (k_0, k_1, k_adv) = [v.out for v in views], [v.target for v in views]

    def ctr(q: Tensor | None, k: Tensor | None) -> float:
        assert q is not None
        assert k is not None
        return by_hand.moco_v3([q.detach().numpy(), None], [None, k.numpy()], 0.2)

    listed = ctr(q_0, k_1) + ctr(q_1, k_0) + ctr(q_adv, k_1) + ctr(q_1, k_adv)
    assert student([x_0, x_1], [x_adv], BATCH).loss.item() == pytest.approx(listed, rel=1e-9)


def test_self_distillation_is_listing_3() -> None:
    student = student_of("self_distillation")
    x, x_adv = pictures(1)[0], pictures(1, 9)[0]
    assert student.twin is not None
    clean, f = student.twin[0](x), student.encoder
    targeted = F.mse_loss(torch.cat([clean, clean]), f(torch.cat([x, x_adv]))).item()
    untargeted = F.mse_loss(clean, f(x_adv)).item()
    assert student([x, x], [x_adv], BATCH, 0.5, 0.5).loss.item() == pytest.approx(targeted, rel=1e-9)
    assert student([x, x], [x_adv], BATCH, 0.0, 1.0).loss.item() == pytest.approx(untargeted, rel=1e-9)


# --- (e) and (f) in the loop ---


class Constant(nn.Module):
    """A network that makes one point of all images."""

    def __init__(self) -> None:
        super().__init__()
        self.point = nn.Parameter(torch.arange(1.0, 6.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.point + 0 * x.flatten(1)[:, :1]


def recipe(name: str, **values: object) -> Recipe:
    known = {"encoder": "zoo:digits_cnn", "data": "digits?part=train", "images": 128, "batch_size": 64, "steps": 3}
    return Recipe(method=made(name), **(known | values))


@every_method
def test_collapse_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 2)
    constant = Encoder(Constant(), mean=0.0, std=1.0)
    assert spread(constant(torch.rand(4, 1, 8, 8))).item() == 0
    with pytest.raises(Failed, match=r"2 of 3.*collapsed"):
        train(recipe(name, data="gaussian?shape=1x8x8&count=32", images=32, batch_size=8), tmp_path, encoder=constant)


@pytest.mark.sweep(2)
@every_method
def test_three_steps_change_the_encoder(name: str, tmp_path: Path) -> None:
    trained = train(recipe(name, adversary=ATTACK), tmp_path)
    assert trained.steps == 3
    assert [row["step"] for row in trained.rows] == [1, 2, 3]
    assert all(row["gradient"] > 0 for row in trained.rows)
    assert all(row["attacked"] != row["clean"] for row in trained.rows)
    assert trained.rows[-1]["spread"] > 0.01


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("moco_v2", {"temperature": 0.0}, "moco_v2.temperature: expected a finite number above 0, got 0.0"),
    ("moco_v2", {"momentum": 1.1}, r"moco_v2: expected a momentum in \[0, 1\], got 1.1"),
    ("moco_v2", {"queue": 0}, "moco_v2.queue: expected a whole number above 0, got 0"),
    ("moco_v3", {"temperature": -1.0}, "moco_v3.temperature: expected a finite number above 0, got -1.0"),
    ("moco_v3", {"momentum": -0.1}, "moco_v3.momentum: expected 0 or more, got -0.1"),
    ("moco_v3", {"momentum": 1.1}, r"moco_v3: expected a momentum in \[0, 1\], got 1.1"),
    ("simsiam", {"bottleneck": 0}, "simsiam.bottleneck: expected a whole number above 0, got 0"),
    ("barlow_twins", {"redundancy": -1.0}, "barlow_twins.redundancy: expected 0 or more, got -1.0"),
    ("barlow_twins", {"dim": 1}, "barlow_twins: expected a dim of at least 2 features, got 1"),
    ("vicreg", {"variance": -1.0}, "vicreg.variance: expected 0 or more, got -1.0"),
    ("vicreg", {"invariance": 0.0, "variance": 0.0, "covariance": 0.0}, "vicreg: expected .* got 0 for all"),
    ("supcon", {"temperature": 0.0}, "supcon.temperature: expected a finite number above 0, got 0.0"),
    ("self_distillation", {"divergence": "l1"}, "self_distillation.divergence: expected 'l2' or 'cosine', got 'l1'"),
]


@pytest.mark.parametrize(("name", "changes", "message"), REFUSED)
def test_settings_that_mean_nothing_are_refused(name: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadValue, match=f"^{message}$"):
        made(name, **changes)


@pytest.mark.parametrize("classes", [None, 1])
def test_supcon_needs_classes(classes: int | None, tiny: Encoder) -> None:
    with pytest.raises(NotEnough, match="supcon"):
        made("supcon").student(tiny, Facts(12, 20, classes))


def test_fare_asks_attacked_images_alone(tiny: Encoder) -> None:
    """min E max ‖f(x') - f_0(x)‖²: the weights of a hardening, and the loss that they leave."""
    auto, fare = (Hardening("memory", "memory", objective=name, eps=0.1, steps=1).recipe() for name in ("auto", "fare"))
    assert fare.method == auto.method == registry.build({"kind": "methods", "name": "self_distillation"})
    assert (auto.adversary.clean, auto.adversary.weight, fare.adversary.clean, fare.adversary.weight) == (1, 1, 0, 1)
    assert replace(fare, adversary=auto.adversary) == auto  # in all else they are one
    assert fare.adversary.objective == registry.build({"kind": "objectives", "name": "untargeted", "divergence": "l2"})
    student = fare.method.student(trainable(tiny), Facts(12, SIZE)).double()
    moved(student.encoder)
    attacked = (EIGHT + 0.1).clamp(0, 1)
    loss = student([EIGHT, EIGHT], [attacked], Batch(torch.arange(SIZE)), clean=0.0, weight=1.0).loss
    apart = student.encoder(attacked) - student.twin[0](EIGHT)
    assert loss.item() == pytest.approx(apart.square().sum(1).mean().item() / 12)


def test_tecoa_attacks_its_own_loss_and_learns_from_that_alone(tmp_path: Path) -> None:
    recipe = Hardening(
        "memory", "memory", objective="tecoa[path=x.safetensors,temperature=0.5]", eps=0.1, steps=1
    ).recipe()
    assert recipe.method == registry.build(
        {"kind": "methods", "name": "tecoa", "path": "x.safetensors", "temperature": 0.5}
    )
    assert (recipe.adversary.objective, recipe.adversary.clean, recipe.adversary.weight) == (None, 0, 1)
    for objective, refusal, message in (
        ("fair", UnknownName, r"'fare'\?"),
        ("tecoa[temprature=1]", UnknownName, r"'temperature'\?"),
        ("fare[divergence=l1]", BadValue, "'cosine'"),
        ("tecoa[", BadValue, "NAME"),
    ):
        with pytest.raises(refusal, match=message):
            Hardening("memory", "memory", objective=objective, eps=0.1, steps=1)


# --- (f) classes of names ---


def of_names(folder: Path, dim: int, classes: int = 3, **changes: object) -> Method:
    """TeCoA on a file of two prompts for each class."""
    path = folder / "names.safetensors"
    embeddings = torch.randn(classes, 2, dim, generator=torch.Generator().manual_seed(4))
    save_file({"embeddings": embeddings}, path)
    return registry.build({"kind": "methods", "name": "tecoa", "path": str(path), **changes})


@pytest.mark.parametrize("temperature", [0.01, 0.5])
@pytest.mark.parametrize("classes", [None, [4, 0, 2]])
def test_tecoa_is_the_cross_entropy_of_cosines(
    temperature: float, classes: list[int] | None, tiny: Encoder, tmp_path: Path
) -> None:
    """Whatever the data call the classes: line i of the names is their class i."""
    method = of_names(tmp_path, 12, 5, temperature=temperature)
    student = method.student(trainable(tiny), Facts(12, SIZE, 3)).double()
    (view,) = student.see([EIGHT], [0])
    assert view.rep is not None
    embeddings = load_file(tmp_path / "names.safetensors")["embeddings"].double()
    directions = torch.stack([F.normalize(own).mean(0) for own in embeddings])
    labels = LABELS if classes is None else torch.tensor(classes)[LABELS]
    loss = student.loss([view], Batch(torch.arange(SIZE), LABELS, classes=classes))
    ours = by_hand.tecoa(view.rep.detach().numpy(), directions.numpy(), labels.numpy(), temperature)
    assert loss.item() == pytest.approx(ours, rel=1e-5)
    loss.backward()
    learned = dict(student.named_parameters())
    assert all(name.startswith("encoder.") for name in learned)  # the text tower is no weight
    assert all(weight.grad is not None for weight in learned.values())


def test_tecoa_refuses_what_has_no_names(tiny: Encoder, tmp_path: Path) -> None:
    facts = Facts(12, SIZE, 3)
    for method, facts_, refusal, message in (
        (of_names(tmp_path, 12), Facts(12, SIZE), NotEnough, "tecoa"),
        (of_names(tmp_path, 12), Facts(11, SIZE, 3), Mismatch, "12 dimensions"),
        (registry.build({"kind": "methods", "name": "tecoa"}), facts, Missing, "tecoa"),
    ):
        with pytest.raises(refusal, match=message):
            method.student(tiny, facts_)
    student = of_names(tmp_path, 12).student(trainable(tiny), facts).double()
    with pytest.raises(Mismatch, match="class 7"):
        student.loss(student.see([EIGHT], [0]), Batch(torch.arange(SIZE), LABELS, classes=[0, 1, 7]))
