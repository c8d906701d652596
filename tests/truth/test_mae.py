"""MAE against its formula in NumPy: what is hidden, what is painted, and whose weights learn."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Batch, Encoder, Facts, Rng, Student
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.methods.mae import Mae
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Failed, Unsupported
from holdfast.runtime.listener import Silent
from holdfast.runtime.optional import optional
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training import loop
from holdfast.training.adversary import Adversary
from holdfast.training.checkpoint import tensors_of
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe
from holdfast.training.recipe_file import make_recipe

BATCH = Batch(torch.tensor([4, 0, 9, 2, 7]), None, 0.25, 1)
SMALL = Mae(dim=8, depth=1, heads=2)
ATTACK = Adversary(Linf(0.1), Pgd(steps=3, step_size=0.03, keep="last"), None)


def transformer(**options: object) -> Encoder:
    """Return a tiny vision transformer of timm: images of 16 pixels, four patches."""
    make = optional("timm.models.vision_transformer", "timm", "timm", "mae").VisionTransformer
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = make(
            **{"img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2, "num_classes": 0} | options
        )
    return Encoder(network, mean=[0.4, 0.5, 0.6], std=[0.2, 0.3, 0.25], name="tiny transformer")


def student_of(method: Mae = SMALL, **options: object) -> Student:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        student = method.student(trainable(transformer(**options)), Facts(16, 10)).double().train()
        with torch.no_grad():
            for value in student.parameters():
                if value.requires_grad:
                    value.add_(0.1 * torch.randn_like(value))
    return student


def pictures(seed: int = 0, size: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(size, 3, 16, 16, generator=generator, dtype=torch.float64)


def snapshot(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors_of(network).items()}


def changed(before: dict[str, Tensor], network: nn.Module) -> set[str]:
    return {name for name, value in tensors_of(network).items() if not torch.equal(value, before[name])}


# --- what is painted ---


def patches(x: np.ndarray) -> np.ndarray:
    """Return the patches [B, 4, 192] of images: row by row, pixels before channels."""
    cut = [x[:, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] for row in range(2) for column in range(2)]
    return np.stack([patch.transpose(0, 2, 3, 1).reshape(len(x), -1) for patch in cut], 1)


def normal(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def block(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Return what a pre-norm transformer block of two heads makes of tokens [B, T, D]."""
    batch, tokens, dim = x.shape
    read = linear(normal(x, weights, f"{name}.norm1"), weights, f"{name}.attn.qkv")
    q, k, v = read.reshape(batch, tokens, 3, 2, dim // 2).transpose(2, 0, 3, 1, 4)
    likeness = np.exp(q @ k.transpose(0, 1, 3, 2) / np.sqrt(dim // 2))
    mixed = (likeness / likeness.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, dim)
    x = x + linear(mixed, weights, f"{name}.attn.proj")
    inner = linear(normal(x, weights, f"{name}.norm2"), weights, f"{name}.mlp.fc1")
    error = torch.erf(torch.tensor(inner / np.sqrt(2))).numpy()
    return x + linear(inner * (1 + error) / 2, weights, f"{name}.mlp.fc2")


def painted(student: Student, x: Tensor, hidden: np.ndarray) -> np.ndarray:
    """Return all four patches as MAE's formula paints them."""
    weights = {name: value.detach().numpy() for name, value in tensors_of(student).items()}
    weights = {name.removeprefix("encoder.module."): value for name, value in weights.items()}
    batch = np.arange(len(x))[:, None]
    visible = np.stack([[patch for patch in range(4) if patch not in row] for row in hidden])
    mean, std = np.array([0.4, 0.5, 0.6]).reshape(1, 3, 1, 1), np.array([0.2, 0.3, 0.25]).reshape(1, 3, 1, 1)
    cut = patches((x.numpy() - mean.astype(np.float32)) / std.astype(np.float32))
    kernel = weights["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(16, -1)
    tokens = cut @ kernel.T + weights["patch_embed.proj.bias"] + weights["pos_embed"][:, 1:]
    first = np.broadcast_to(weights["cls_token"] + weights["pos_embed"][:, :1], (len(x), 1, 16))
    tokens = np.concatenate([first, tokens[batch, visible]], 1)
    tokens = normal(block(tokens, weights, "blocks.0"), weights, "norm")
    narrow = linear(tokens, weights, "narrow")
    canvas = np.broadcast_to(weights["decoder.mask_token"], (len(x), 5, 8)).copy()
    canvas[:, 0] = narrow[:, 0]
    canvas[batch, visible + 1] = narrow[:, 1:]
    decoded = block(canvas + weights["decoder.pos_embed"], weights, "decoder.blocks.0")
    return linear(normal(decoded, weights, "decoder.norm"), weights, "paint")[:, 1:]


def hidden_of(student: Student, batch: Batch) -> np.ndarray:
    """Return which patches are hidden: those whose patches the target of `see` holds."""
    x = torch.arange(4.0, dtype=torch.float64).repeat_interleave(64).view(1, 2, 2, 8, 8).permute(0, 1, 3, 2, 4)
    marked = x.reshape(1, 1, 16, 16).expand(len(batch.positions), 3, 16, 16)
    plain = student._normalise
    student._normalise = False
    (seen,) = student.see([marked], [1], batch=batch)
    student._normalise = plain
    assert seen.target is not None
    return seen.target[:, :, 0].numpy().astype(int)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("share", [0.75, 0.5])
def test_the_loss_is_that_of_the_paper(normalise: bool, share: float) -> None:
    student, x = student_of(Mae(share, normalise, 8, 1, 2)), pictures()
    hidden, rows = hidden_of(student, BATCH), np.arange(5)[:, None]
    assert hidden.shape == (5, 4 * share)
    asked = patches(x.numpy())
    if normalise:
        asked = (asked - asked.mean(2, keepdims=True)) / np.sqrt(asked.var(2, ddof=1, keepdims=True) + 1e-6)
    expected = ((painted(student, x, hidden) - asked)[rows, hidden] ** 2).mean()
    assert student([x, x], [], BATCH).loss.item() == pytest.approx(expected, rel=1e-6)


def test_attacked_patches_are_painted_clean() -> None:
    student, x, attacked = student_of(), pictures(), pictures(1)
    hidden, rows = hidden_of(student, BATCH), np.arange(5)[:, None]
    asked = patches(x.numpy())
    asked = (asked - asked.mean(2, keepdims=True)) / np.sqrt(asked.var(2, ddof=1, keepdims=True) + 1e-6)
    worst = ((painted(student, attacked, hidden) - asked)[rows, hidden] ** 2).mean()
    found = student([x, x], [attacked], BATCH, 1.0, 3.0)
    assert found.attacked.item() == pytest.approx(worst, rel=1e-6)
    assert found.loss.item() == pytest.approx(found.clean.item() + 3 * worst, rel=1e-6)
    assert student([x, x], [attacked], BATCH, 0.0, 1.0).loss.item() == pytest.approx(worst, rel=1e-6)


def test_gradients_are_those_of_finite_differences() -> None:
    student, x, step = student_of(), pictures(), 1e-6
    weights = [weight for weight in student.parameters() if weight.requires_grad]
    directions = [torch.randn(w.shape, generator=torch.Generator().manual_seed(2), dtype=w.dtype) for w in weights]
    slopes = []
    with torch.no_grad():
        for weight, direction in zip(weights, directions, strict=True):
            weight.add_(step * direction)
            above = student([x, x], [], BATCH).loss.item()
            weight.sub_(2 * step * direction)
            slopes.append((above - student([x, x], [], BATCH).loss.item()) / (2 * step))
            weight.add_(step * direction)
    student([x, x], [], BATCH).loss.backward()
    found = [float((w.grad * d).sum()) if w.grad is not None else 0.0 for w, d in zip(weights, directions, strict=True)]
    assert max(map(abs, found)) > 1e-2
    assert found == pytest.approx(slopes, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"global_pool": "avg"}, {"reg_tokens": 2}, {"class_token": False, "global_pool": "avg"}]
)
def test_visible_tokens_are_the_networks_own(options: dict[str, object]) -> None:
    student, x = student_of(**options), pictures()
    network = student.encoder.module
    all_of_them = torch.arange(network.pos_embed.shape[1]).expand(5, -1)
    assert torch.allclose(student.tokens.encode(x, idx_keep=all_of_them), network.forward_features(x))
    assert torch.isfinite(student([x, x], [], BATCH).loss)


def test_the_encoders_weights_are_shared_and_kept() -> None:
    start = transformer()
    copy = trainable(start)
    student = SMALL.student(copy, Facts(16, 10))
    assert student.encoder is copy
    assert student.tokens.vit is copy.module
    before = start.module.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in copy.module.state_dict().items())
    names = [name for name, value in student.named_parameters() if value.requires_grad]
    assert sum("patch_embed" in name for name in names) == 2  # each weight once
    assert not any("tokens" in name for name in names)


# --- what is hidden ---


def test_what_is_hidden_depends_on_seed_image_and_epoch_alone() -> None:
    student = student_of(Mae(0.5, dim=8, depth=1, heads=2))
    first = hidden_of(student, BATCH)
    assert (hidden_of(student, Batch(BATCH.positions, None, 0.9, 1)) == first).all()  # another step of a free training
    assert (hidden_of(student, Batch(BATCH.positions.flip(0), None, 0.25, 1)) == first[::-1]).all()
    assert (hidden_of(student, Batch(BATCH.positions[2:3], None, 0.25, 1)) == first[2:3]).all()
    assert (hidden_of(student, Batch(BATCH.positions, None, 0.25, 2)) != first).any()
    with torch.no_grad():
        tensors_of(student)["seed"].add_(1)
    assert (hidden_of(student, BATCH) != first).any()
    many = hidden_of(student, Batch(torch.arange(600), None, 0.25, 1))
    assert np.bincount(many.ravel(), minlength=4) == pytest.approx(300, abs=4 * np.sqrt(600) / 2)


def test_attacks_raise_the_loss_by_visible_patches_and_leave_everything_untouched() -> None:
    student, x = student_of(), pictures()
    before = snapshot(student)
    (found,) = ATTACK.disturb(student, [x, x], BATCH, Rng(0, ids=tuple("abcde")))
    assert not changed(before, student)
    assert student.training
    worst = student([x, x], [found], BATCH).attacked
    assert worst > student([x, x], [], BATCH).clean + 1e-4
    for image, row in zip(found, hidden_of(student, BATCH), strict=True):
        for patch in row:  # what an attack does where nobody looks is of no consequence
            row_of, column = divmod(int(patch), 2)
            image[:, 8 * row_of : 8 * row_of + 8, 8 * column : 8 * column + 8] = 0
    assert student([x, x], [found], BATCH).attacked == worst
    assert not changed(before, student)


def test_a_network_blind_to_pixels_has_collapsed() -> None:
    student, x = student_of(), pictures()
    assert student([x, x], [], BATCH).spread > 0.01
    with torch.no_grad():
        tensors_of(student)["encoder.module.patch_embed.proj.weight"].zero_()
    outcome, (seen, _) = student([x, x], [], BATCH), student.see([x, x], [0, 1], batch=BATCH)
    assert outcome.spread < 1e-6
    assert seen.rep is not None
    assert seen.rep.std(0).max() > 1e-3  # visible patches alone would not tell: they stand in different places


# --- trainings ---


def recipe(**changes: object) -> Recipe:
    method = {"name": "mae", "dim": 16, "depth": 1, "heads": 2}
    asked = {"encoder": "given", "data": "digits?part=train&channels=3&size=16x16", "images": 128, "batch_size": 64}
    return make_recipe({**asked, "steps": 3, "method": method, **changes})


class Interrupting(Silent):
    """Presses Ctrl-C after three steps."""

    left = 3

    def stage(self, text: str) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.sweep(2)
@pytest.mark.parametrize("objective", ["loss", "untargeted"])
def test_an_interrupted_training_comes_to_the_same_weights(objective: str, tmp_path: Path) -> None:
    attack = {"name": "pgd", "steps": 2, "step_size": 0.02}
    asked = recipe(steps=5, adversary={"objective": objective, "attack": attack})
    whole = train(asked, tmp_path / "whole", encoder=transformer())
    assert all(row["attacked"] > 0 for row in whole.rows)
    assert whole.rows[-1]["loss"] < whole.rows[0]["loss"]
    with pytest.raises(KeyboardInterrupt):
        train(asked, tmp_path / "run", encoder=transformer(), listener=Interrupting())
    resumed = train(asked, tmp_path / "run", encoder=transformer())
    assert resumed.resumed == 3
    assert resumed.rows == whole.rows
    assert resumed.encoder.fingerprint == whole.encoder.fingerprint != transformer().fingerprint


def test_collapse_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 2)
    blind = transformer()
    with torch.no_grad():
        blind.module.get_submodule("patch_embed.proj").get_parameter("weight").zero_()
    with pytest.raises(Failed, match="collapsed"):
        train(recipe(optimiser={"rate": 1e-12}), tmp_path, encoder=blind)


def test_what_is_trained_at_another_size_is_opened_again(tmp_path: Path) -> None:
    spec = "timm:test_vit?weights=random&size=64"
    data = "digits?part=train&channels=3&size=64x64"
    trained = train(recipe(encoder=spec, data=data, images=8, batch_size=8, steps=1), tmp_path)
    assert open_encoder(trained.spec).fingerprint == trained.encoder.fingerprint != open_encoder(spec).fingerprint


# --- bad settings ---


@pytest.mark.parametrize(
    "changes", [{"hidden": 0.0}, {"hidden": 1.0}, {"depth": 0}, {"dim": 6, "heads": 1}, {"heads": 3}]
)
def test_settings_that_mean_nothing_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(BadValue, match="mae"):
        Mae(**changes)


def test_other_networks_are_refused(tiny: Encoder) -> None:
    with pytest.raises(Unsupported, match="tiny"):
        Mae().student(trainable(tiny), Facts(12, 20))
    with pytest.raises(Unsupported, match="mae"):
        Mae().student(trainable(transformer(pos_embed="none")), Facts(16, 20))
    with pytest.raises(Unsupported, match="1x1"):
        Mae().student(trainable(transformer(patch_size=16)), Facts(16, 20))
