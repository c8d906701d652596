"""Bugs that are planted in bound propagation, and the property that must notice each: no certificate is false."""

from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

import pytest
import torch
from certified_problems import Setting, solved
from torch import Tensor

from holdfast.core import registry
from holdfast.numerics.bounds import forms, trace
from holdfast.numerics.bounds.activations import LinearRelaxation, MaxPool, Relu, Smooth
from holdfast.numerics.bounds.affine import Add, Conv
from holdfast.numerics.bounds.forms import Patches
from holdfast.numerics.bounds.operations import Operations
from holdfast.parts.certifiers import crown, crown_ibp
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import NotCertified

Plant = Callable[[pytest.MonkeyPatch], None]


def false_proofs(certifier: str, name: str, norm: str) -> int:
    """How many certificates of two settings are above a margin that an image reaches."""
    count = 0
    for seed in (0, 1):
        if name in ("tanh", "gelu"):
            setting = Setting.draw(name, norm, seed, few=True)
            reached, tolerance = torch.minimum(setting.sampled(2000), setting.attacked()), 1e-6
        else:
            problem = solved(name, norm, seed, few=True)
            setting, reached, tolerance = problem.setting, problem.reached, 1e-9
        lower = setting.certified(registry.find("certifiers", certifier)()).lower
        count += int((lower > reached + tolerance * setting.scale).sum())
    return count


def changed_lines(kind: type, change: Callable[[LinearRelaxation], LinearRelaxation]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        before = kind.relax
        patch.setattr(kind, "relax", lambda self, box: change(before(self, box)))

    return plant


def changed_result(owner: object, name: str, change: Callable[..., object]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        before = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **kwargs: change(before(*args, **kwargs)))

    return plant


def tighter(share: float) -> Callable[[dict], dict]:
    def change(ranges: dict[int, tuple[Tensor, Tensor]]) -> dict[int, tuple[Tensor, Tensor]]:
        kept = {}
        for node, (low, high) in ranges.items():
            cut = share * (high - low)
            kept[node] = (low + cut, high - cut)
        return kept

    return change


def lose_bias(operation: str, compared: bool = False) -> Plant:
    """The network is read without a bias; what compares it with the encoder is switched off, or left on."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        before = getattr(Operations, operation)
        patch.setattr(
            Operations, operation, lambda self, x, weight, bias=None, *rest: before(self, x, weight, None, *rest)
        )
        patch.setattr(trace, "_traced", WeakKeyDictionary())  # all networks are read again
        if not compared:
            patch.setattr(trace, "_compare", lambda *_: None)

    return plant


def swap_signs(patch: pytest.MonkeyPatch) -> None:
    before = forms._relax_coefs

    def swapped(coefs: Tensor, lines: LinearRelaxation) -> tuple[Tensor, Tensor, Tensor]:
        other = replace(lines, below_slope=lines.above_slope, above_slope=lines.below_slope)
        return before(coefs, other)

    patch.setattr(forms, "_relax_coefs", swapped)


def shift_windows(patch: pytest.MonkeyPatch) -> None:
    before = Patches.cut
    patch.setattr(Patches, "cut", lambda self, values: before(self, values).roll(1, -1))


def forget_other_inputs(patch: pytest.MonkeyPatch) -> None:
    before = MaxPool.choose

    def choose(self: MaxPool, box: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        chosen, rules, ceiling = before(self, box)
        return chosen, torch.ones_like(rules), ceiling

    patch.setattr(MaxPool, "choose", choose)


def smaller_ball(kind: type) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        box, least = kind.box, kind.least
        patch.setattr(kind, "box", lambda self, x, radii: box(self, x, 0.95 * radii))
        patch.setattr(kind, "least", lambda self, slopes, x, near, radii: least(self, slopes, x, near, 0.95 * radii))

    return plant


PLANTED: dict[str, tuple[Plant, str, str, str]] = {
    "the chord above a ReLU is too flat": (
        changed_lines(Relu, lambda lines: replace(lines, above_slope=0.7 * lines.above_slope)),
        "crown", "dense", "linf",
    ),
    "the line below a ReLU is too steep": (
        changed_lines(Relu, lambda lines: replace(lines, below_slope=1.3 * lines.below_slope)), "crown", "conv", "linf",
    ),
    "the chord goes through zero": (
        changed_lines(Relu, lambda lines: replace(lines, above=0 * lines.above)), "crown_ibp", "residual", "linf",
    ),
    "the bias of a matrix is dropped": (lose_bias("_op_linear"), "crown", "dense", "linf"),
    "the bias of a convolution is dropped": (lose_bias("_op_conv2d"), "crown", "dilated", "linf"),
    "the transposed convolution is padded by one more": (
        changed_result(Conv, "adjoint", lambda parts: (parts[0].roll(1, -1),)), "crown", "padded", "linf",
    ),
    "the windows of patches are shifted": (shift_windows, "crown", "deep_conv", "l2"),
    "a⁺ meets the line above, a⁻ the line below": (swap_signs, "crown", "dilated", "linf"),
    "ranges inside are too tight": (changed_result(crown, "ranges_inside", tighter(0.15)), "crown", "conv", "linf"),
    "boxes inside are too tight": (changed_result(crown_ibp, "boxes", tighter(0.15)), "crown_ibp", "dilated", "linf"),
    "a residual connection has the wrong sign": (
        changed_result(Add, "adjoint", lambda parts: (parts[0], -parts[1])), "crown", "residual_conv", "linf",
    ),
    "the largest input of a pool rules where others may": (forget_other_inputs, "crown", "max_pool", "linf"),
    "smooth lines have no room": (
        changed_lines(Smooth, lambda lines: replace(lines, below=lines.below + 0.02, above=lines.above - 0.02)),  # type: ignore[operator]
        "crown", "tanh", "linf",
    ),
    "the ℓ∞ ball is too small": (smaller_ball(Linf), "crown", "conv", "linf"),
    "the ℓ2 ball is too small": (smaller_ball(L2), "crown", "padded", "l2"),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[pytest.mark.slow] * (number % 8 > 0)) for number, bug in enumerate(PLANTED)]
)
def test_the_property_notices_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, certifier, name, norm = PLANTED[bug]
    assert false_proofs(certifier, name, norm) == 0, "already without the bug"
    plant(monkeypatch)
    assert false_proofs(certifier, name, norm) > 0, f"not noticed: {bug}"
    monkeypatch.undo()
    assert false_proofs(certifier, name, norm) == 0, "still there without the bug"


@pytest.mark.parametrize("operation", ["_op_linear", "_op_conv2d"])
def test_a_network_that_is_read_wrongly_is_refused(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_bias(operation, compared=True)(monkeypatch)
    with pytest.raises(NotCertified, match="computes"):
        false_proofs("crown", "dilated", "linf")
