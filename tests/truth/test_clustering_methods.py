"""DINO, SwAV and DeepCluster-v2 against their formulas in NumPy, and what they may and may not remember."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core import Batch, EncodedView, Encoder, Facts, Rng, Student, registry
from holdfast.numerics.geometry.views import Views
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.methods.deepcluster_v2 import DeepclusterV2
from holdfast.parts.methods.dino import Dino
from holdfast.parts.methods.shared.spherical_kmeans import spherical_kmeans
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Mismatch, NotEnough, Unsupported
from holdfast.runtime.listener import Silent
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training.adversary import Adversary
from holdfast.training.checkpoint import tensors_of
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe
from holdfast.training.recipe_file import make_recipe

SMALL = {
    "dino": {"prototypes": 9, "hidden": 8, "dim": 6, "teacher_temperature": 0.07, "warmup": 0.5, "frozen": 0},
    "swav": {"prototypes": 5, "hidden": 8, "dim": 6, "queue": 10, "queue_from": 0.4, "frozen": 0},
    "deepcluster_v2": {"clusters": 5, "hidden": 8, "dim": 6},
}
SIZE, IMAGES = 7, 20
POSITIONS = torch.tensor([3, 19, 0, 7, 8, 12, 5])
BATCH = Batch(POSITIONS, None, 0.25, 1)
ATTACK = Adversary(Linf(0.1), Pgd(steps=3, step_size=0.03, keep="last"), None)

every_method = pytest.mark.parametrize("name", SMALL)


def student_of(name: str, **changes: object) -> Student:
    """Return a tiny float64 student in training mode, in the middle of a training."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 3, 3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        start = trainable(Encoder(nn.Sequential(*net, nn.Linear(12, 5)), mean=0.5, std=0.5))
        method = registry.build({"kind": "methods", "name": name, **SMALL[name], **changes})
        student = method.student(start, Facts(5, IMAGES)).double().train()
        with torch.no_grad():
            for value in student.parameters():
                if value.requires_grad:
                    value.add_(0.3 * torch.randn_like(value))
            student.begin_epoch(0, 0, lambda places: pictures(2, size=len(places)))
            for number in range(2):
                student(pictures(2, number), [], BATCH)
            student.after_step(0.2)
    return student


def pictures(number: int, seed: int = 0, size: int = SIZE, side: int = 6) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.rand(number, size, 1, side, side, generator=generator, dtype=torch.float64))


def seen_by(student: Student, views: int) -> list[EncodedView]:
    """Return random outputs, as the heads of a method would give them."""
    dim = 9 if isinstance(student.twin, nn.ModuleList) else 6
    generator = torch.Generator().manual_seed(1)
    outs = F.normalize(torch.randn(views, SIZE, dim, generator=generator, dtype=torch.float64), dim=2)
    targets = torch.randn(views, SIZE, dim, generator=generator, dtype=torch.float64)
    return [
        EncodedView(out, out, out if student.twin is None else target if student.is_target(view) else None)
        for view, (out, target) in enumerate(zip(outs, targets, strict=True))
    ]


def snapshot(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors_of(network).items()}


def changed(before: dict[str, Tensor], network: nn.Module) -> set[str]:
    return {name for name, value in tensors_of(network).items() if not torch.equal(value, before[name])}


# --- losses ---


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def dino(views: list[EncodedView], student: Student, progress: float) -> float:
    t = 0.04 + (0.07 - 0.04) * min(1.0, progress / 0.5)
    centre = tensors_of(student)["_criterion.center"].numpy().reshape(-1)
    terms = []
    for i, whole in enumerate(views):
        for j, other in enumerate(views):
            if i != j and whole.target is not None and other.out is not None:
                p = np.exp(log_softmax((whole.target.numpy() - centre) / t))
                terms.append(-(p * log_softmax(other.out.detach().numpy() / 0.1)).sum(1).mean())
    return float(np.mean(terms))


def codes(scores: np.ndarray) -> np.ndarray:
    """Return Sinkhorn's codes of a batch: prototypes first, then images, three times."""
    q = np.exp(scores / 0.05)
    for _ in range(3):
        q = q / q.sum(0, keepdims=True)
        q = q / q.sum(1, keepdims=True)
    return q


def swav(views: list[EncodedView], student: Student, progress: float) -> float:
    rows = tensors_of(student)["prototypes.weight"].detach().numpy()
    queue = tensors_of(student)["queue"].numpy()
    scores = [view.out.detach().numpy() @ rows.T for view in views if view.out is not None]
    terms = []
    for i in range(2):
        both = np.concatenate([scores[i], queue[i] @ rows.T]) if progress >= 0.4 else scores[i]
        q = codes(both)[:SIZE]
        terms += [-(q * log_softmax(other / 0.1)).sum(1).mean() for j, other in enumerate(scores) if j != i]
    return float(np.mean(terms))


def deepcluster_v2(views: list[EncodedView], student: Student, progress: float) -> float:
    held = {name: value.numpy() for name, value in tensors_of(student).items() if name in ("centroids", "assigned")}
    terms = []
    for centroids, assigned in zip(held["centroids"], held["assigned"], strict=True):
        for view in views:
            assert view.out is not None
            chosen = log_softmax(view.out.detach().numpy() @ centroids.T / 0.1)
            terms.append(-chosen[np.arange(SIZE), assigned[POSITIONS.numpy()]].mean())
    return float(np.mean(terms))


@every_method
@pytest.mark.parametrize("progress", [0.25, 0.75])
@pytest.mark.parametrize("views", [2, 4])
def test_losses_are_those_of_the_papers(name: str, progress: float, views: int) -> None:
    student = student_of(name)
    seen = seen_by(student, views)
    expected = globals()[name](seen, student, progress)
    found = student.loss(seen, Batch(POSITIONS, None, progress, 1)).item()
    assert found == pytest.approx(expected, rel=1e-6)  # lightly keeps temperatures in float32


def test_small_views_are_no_targets() -> None:
    seen = student_of("dino").see([*pictures(2), *pictures(2, 1, side=5)], range(4))
    assert [view.target is not None for view in seen] == [True, True, False, False]


def test_an_attacked_view_is_no_target() -> None:
    student = student_of("dino")
    seen = seen_by(student, 3)
    seen[0] = seen[0]._replace(target=None)
    assert student.loss(seen, BATCH).item() == pytest.approx(dino(seen, student, 0.25), rel=1e-6)


def shares_of(views: list[EncodedView], student: Student) -> list[Tensor]:
    rows = tensors_of(student)["prototypes.weight"]
    return [torch.tensor(codes((view.out @ rows.T).numpy())) for view in views if view.out is not None]


@every_method
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    student, batch, step = student_of(name), Batch(POSITIONS, None, 0.25, 1), 1e-6
    views = [*pictures(2), *pictures(1, 1, side=5)]
    with torch.no_grad():
        held = student.see(views, range(3))
        shares = shares_of(held[:2], student) if name == "swav" else []

    def value() -> float:
        seen = student.see(views, range(3))
        if name != "swav":
            return student.loss(seen, batch).item()
        rows = tensors_of(student)["prototypes.weight"]  # no gradient passes through codes: they stand still
        logs = [F.log_softmax(view.out @ rows.T / 0.1, 1) for view in seen if view.out is not None]
        terms = [-(q * log).sum(1).mean() for i, q in enumerate(shares) for j, log in enumerate(logs) if i != j]
        return torch.stack(terms).mean().item()

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
    student.zero_grad()
    student.loss(student.see(views, range(3)), batch).backward()
    found = [float((w.grad * d).sum()) if w.grad is not None else 0.0 for w, d in zip(weights, directions, strict=True)]
    assert max(map(abs, found)) > 1e-3
    assert found == pytest.approx(slopes, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "weight"),
    [("dino", "projector.last_layer.parametrizations.weight.original1"), ("swav", "prototypes.weight")],
)
def test_prototypes_are_frozen_in_the_first_epochs(name: str, weight: str) -> None:
    student = student_of(name, frozen=2)
    sizes = []
    for epoch in (0, 1, 2):
        student.zero_grad()
        student(pictures(2), [], Batch(POSITIONS, None, 0.25, epoch)).loss.backward()
        gradient = tensors_of(student)[weight].grad
        assert gradient is not None  # processes that train together wait for it
        sizes.append(float(gradient.abs().max()))
    assert sizes[:2] == [0, 0]
    assert sizes[2] > 1e-6


# --- what is remembered ---


@every_method
def test_attacks_raise_the_loss_and_leave_everything_untouched(name: str) -> None:
    student = student_of(name)
    views, before = [*pictures(2), *pictures(1, 1, side=5)], snapshot(student)
    (found,) = ATTACK.disturb(student, views, BATCH, Rng(0, ids=tuple("abcdefg")))
    assert not changed(before, student)
    assert student.training
    assert (found - views[0]).abs().max() <= 0.1 + 1e-9
    student.eval()
    with torch.no_grad():
        clean, _, *_ = student(views, [], BATCH)
        attacked = student([found, *views[1:]], [], BATCH).loss
        assert attacked > clean + 1e-3
    assert not changed(before, student)


REMEMBERED = {
    "dino": {"_criterion.center"},
    "swav": {"queue", "queued"},
    "deepcluster_v2": {"memory"},
}


@every_method
@pytest.mark.parametrize("clean", [0.0, 1.0])
def test_what_is_remembered(name: str, clean: float) -> None:
    student = student_of(name)
    views, attacked, before = pictures(3, 5), pictures(1, 6), snapshot(student)
    with torch.no_grad():  # where the clean view is left out, the attacked one stands for it
        seen = student.see([*views, *attacked][not clean :], [0, 1, 2, 0][not clean :])
        kept = seen[:3] if clean else [seen[2], *seen[:2]]
    for key, value in tensors_of(student).items():
        value.data.copy_(before[key])
    student(views, attacked, BATCH, clean, 1.0)
    moved = {key for key in changed(before, student) if "running" not in key and "batches" not in key}
    assert moved == REMEMBERED[name]
    now = tensors_of(student)
    match name:
        case "dino":
            mean = torch.cat([view.target for view in kept if view.target is not None]).mean(0)
            assert torch.allclose(now["_criterion.center"][0, 0], 0.9 * before["_criterion.center"][0, 0] + 0.1 * mean)
        case "swav":
            for new, old, view in zip(now["queue"], before["queue"], kept, strict=False):
                assert torch.allclose(new, torch.cat([view.out, old[:3]]))
            assert now["queued"] == before["queued"] + SIZE
        case _:
            rest = [place for place in range(IMAGES) if place not in POSITIONS]
            for new, old, view in zip(now["memory"], before["memory"], kept, strict=False):
                assert torch.allclose(new[POSITIONS], view.out)
                assert torch.equal(new[rest], old[rest])


def test_the_queue_waits_until_it_is_full() -> None:
    student, late = student_of("swav", queue=100), Batch(POSITIONS, None, 0.9, 1)
    seen = seen_by(student, 2)
    assert tensors_of(student)["queued"] == 2 * SIZE
    assert student.loss(seen, late).item() == pytest.approx(swav(seen, student, 0.0), rel=1e-6)


def test_prototypes_keep_unit_length() -> None:
    student = student_of("swav")
    rows = tensors_of(student)["prototypes.weight"]
    with torch.no_grad():
        rows.mul_(torch.arange(1, 6)[:, None])
    student.after_step(0.5)
    assert torch.allclose(rows.norm(dim=1), torch.ones(5, dtype=torch.float64))


def test_the_twin_follows_with_the_momentum_of_a_cosine() -> None:
    student = student_of("dino", momentum=0.8)
    before = snapshot(student)
    student.after_step(0.5)
    fast = "projector.last_layer.parametrizations.weight.original1"
    slow = fast.replace("projector", "twin.1")
    assert not torch.allclose(before[slow], before[fast])
    assert torch.allclose(tensors_of(student)[slow], 0.9 * before[slow] + 0.1 * before[fast])


def test_teacher_temperature_rises_linearly() -> None:
    method = Dino(first_temperature=0.04, teacher_temperature=0.08, warmup=0.5)
    found = [method.teacher_temperature_at(progress) for progress in (0, 0.25, 0.5, 1)]
    assert found == pytest.approx([0.04, 0.06, 0.08, 0.08])
    assert Dino(teacher_temperature=0.07, warmup=0).teacher_temperature_at(0) == 0.07


def test_codes_share_prototypes_out_evenly() -> None:
    sinkhorn = optional("lightly.loss.swav_loss", "lightly", "train", "swav").sinkhorn
    scores = torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tanh()
    assert torch.allclose(sinkhorn(scores, 3), torch.tensor(codes(scores.numpy())))
    q = sinkhorn(scores, 500)
    assert torch.allclose(q.sum(1), torch.ones(30, dtype=torch.float64))
    assert torch.allclose(q.sum(0), torch.full((5,), 6.0, dtype=torch.float64))


# --- clusters ---


def test_kmeans_finds_planted_clusters() -> None:
    generator = torch.Generator().manual_seed(3)
    planted = F.normalize(torch.randn(4, 8, generator=generator), dim=1)
    own = torch.arange(4).repeat_interleave(25)[torch.randperm(100, generator=generator)]
    points = F.normalize(planted[own] + 0.1 * torch.randn(100, 8, generator=generator), dim=1)
    centroids, nearest = spherical_kmeans(points, 10, generator)
    for cluster in nearest.unique():
        assert len(own[nearest == cluster].unique()) == 1
    assert torch.equal(nearest, (points @ centroids.T).argmax(1))
    alone, all_of_them = spherical_kmeans(points, 1, generator)
    assert torch.allclose(alone[0], F.normalize(points.sum(0), dim=0))
    assert not all_of_them.any()


def test_kmeans_settles_and_keeps_empty_centroids() -> None:
    points = F.normalize(torch.tensor([[1.0, 0.1], [1.0, 0.1], [1.0, 0.1], [0.1, 1.0]]), dim=1)
    centroids, nearest = spherical_kmeans(points, 4, torch.Generator().manual_seed(0))
    assert torch.allclose(centroids.norm(dim=1), torch.ones(4))
    assert len(nearest[:3].unique()) == 1
    assert nearest[3] != nearest[0]


def test_all_images_are_looked_at_before_the_first_epoch_only() -> None:
    student = student_of("deepcluster_v2")
    views, asked = pictures(2, 9, IMAGES), []

    def look(places: Tensor) -> list[Tensor]:
        asked.append(places)
        return [view[places] for view in views]

    before = snapshot(student)
    student.begin_epoch(1, 0, look)
    assert not asked
    assert changed(before, student) <= {"centroids", "assigned"}
    student.begin_epoch(0, 0, look)
    assert torch.equal(torch.cat(asked), torch.arange(IMAGES))
    assert changed(before, student) == {"memory", "centroids", "assigned"}
    assert student.training
    student.eval()
    for memory, view in zip(tensors_of(student)["memory"], views, strict=True):
        assert torch.allclose(memory, F.normalize(student.projector(student.encoder(view)), dim=1))
    first = snapshot(student)
    student.begin_epoch(0, 0, look)
    assert not changed(first, student)
    student.begin_epoch(1, 0, look)
    assert changed(first, student) <= {"centroids", "assigned"}
    held = tensors_of(student)
    nearest = torch.einsum("hnd,hkd->hnk", held["memory"], held["centroids"]).argmax(2)
    assert torch.equal(held["assigned"], nearest)


# --- trainings ---


PLAIN = {"encoder": "zoo:digits_cnn", "data": "digits?part=train", "images": 128, "batch_size": 64, "steps": 3}


def recipe(name: str, **changes: object) -> Recipe:
    small = SMALL[name] | ({"queue": 100, "queue_from": 0.3} if name == "swav" else {})
    return make_recipe({**PLAIN, "method": {"name": name, **small}, "views": {"local": 1}, **changes})


@pytest.mark.sweep(2)
@every_method
@pytest.mark.parametrize("objective", [None, "loss"])
def test_three_steps(name: str, objective: str | None, tmp_path: Path) -> None:
    attack = {"name": "pgd", "steps": 2, "step_size": 0.02}
    changes = {"adversary": {"objective": objective, "attack": attack}} if objective else {}
    rows = train(recipe(name, **changes), tmp_path).rows
    assert len({row["loss"] for row in rows}) == 3  # clusters that nobody has found leave it where it is
    assert all(row["spread"] > 0.01 for row in rows)
    assert all((row["attacked"] > 0) == bool(objective) for row in rows)


class Interrupting(Silent):
    """Presses Ctrl-C after some steps."""

    def __init__(self, after: int):
        self.left = after

    def stage(self, text: str) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.sweep(3)
@every_method
def test_an_interrupted_training_comes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    asked = recipe(name, steps=5)
    whole = train(asked, tmp_path / "whole")
    for after in (3, 4) if name == "swav" else (3,):  # in the middle of an epoch of two steps, and at its end
        folder = tmp_path / str(after)
        with pytest.raises(KeyboardInterrupt):
            train(asked, folder, listener=Interrupting(after))
        resumed = train(asked, folder)
        assert (whole.resumed, resumed.resumed) == (0, after)
        assert resumed.rows == whole.rows
        assert resumed.encoder.fingerprint == whole.encoder.fingerprint


def test_small_views_have_a_size_of_their_own() -> None:
    x, rng = torch.rand(3, 1, 8, 8), Rng(0, ids=("a", "b", "c"))
    views = Views(local=1, local_size=5)
    assert views(x, rng).shape == x.shape
    assert views(x, rng, local=True).shape == (3, 1, 5, 5)
    still = Views(crop=(1, 1), flip=0, local_crop=(1, 1), local_size=4)
    means = F.avg_pool2d(x, 2)  # sampling midway between pixels is their mean
    assert torch.allclose(still(x, rng, local=True), means, atol=1e-6)
    with pytest.raises(BadValue, match=r"views\.local_size"):
        Views(local_size=0)


def test_small_views_that_nobody_takes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="views"):
        train(make_recipe({**PLAIN, "method": "simclr", "views": {"local": 2}}), tmp_path)
    with pytest.raises(Mismatch, match="local_size=5"):
        train(recipe("dino", views={"local": 2, "local_size": 5}), tmp_path)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    asked = recipe("swav", views={"local": 2, "local_size": 5})
    assert len(train(asked, tmp_path, encoder=Encoder(net, mean=0, std=1)).rows) == 3


# --- bad settings ---


@pytest.mark.parametrize(
    ("name", "parameter", "value", "message"),
    [
        ("dino", "temperature", 0, ".temperature: expected a finite number above 0"),
        ("dino", "first_temperature", -1, ".first_temperature: expected a finite number above 0"),
        ("dino", "warmup", 1.5, ": expected warmup, momentum and centre_momentum in"),
        ("dino", "centre_momentum", 2, ": expected warmup, momentum and centre_momentum in"),
        ("dino", "prototypes", 0, ".prototypes: expected a whole number above 0"),
        ("dino", "frozen", -1, ".frozen: expected 0 or more"),
        ("swav", "epsilon", 0, ".epsilon: expected a finite number above 0"),
        ("swav", "queue", -1, ".queue: expected 0 or more"),
        ("swav", "queue_from", 1.5, r": expected queue_from in \[0, 1\]"),
        ("swav", "iterations", 0, ".iterations: expected a whole number above 0"),
        ("deepcluster_v2", "temperature", 0, ".temperature: expected a finite number above 0"),
        ("deepcluster_v2", "clusters", 1, ": expected at least 2 clusters"),
    ],
)
def test_settings_that_mean_nothing_are_refused(name: str, parameter: str, value: object, message: str) -> None:
    with pytest.raises(BadValue, match=f"^{name}{message}.* got .*{value}"):
        registry.build({"kind": "methods", "name": name, parameter: value})


def test_more_clusters_than_images_are_refused(tiny: Encoder) -> None:
    with pytest.raises(NotEnough, match="20 images"):
        DeepclusterV2().student(trainable(tiny), Facts(12, 20))
