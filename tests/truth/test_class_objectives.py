"""Objectives on logits against their formulas, at ties, at the ends of float32, and with few classes."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from holdfast.core import Objective
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.objectives.dlr import Dlr
from holdfast.runtime.errors import BadValue, Mismatch

ALL: list[Objective] = [CrossEntropy(), Dlr(), ClassMargin()]


def draw(classes: int, rows: int = 40) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, those of the undisturbed images, labels and their one-hot targets."""
    random = torch.Generator().manual_seed(classes)
    logits, clean = (3 * torch.randn(2, rows, classes, generator=random)).double()
    labels = torch.randint(classes, (rows,), generator=random)
    return logits, clean, labels, one_hot(labels, classes).double()


def gradient(objective: Objective, logits: Tensor, clean: Tensor, target: Tensor) -> Tensor:
    z = logits.clone().requires_grad_()
    return torch.autograd.grad(objective(z, clean, target).sum(), z)[0]


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_values_by_hand(classes: int) -> None:
    logits, clean, labels, target = draw(classes)
    for i, (row, label) in enumerate(zip(logits.numpy(), labels.tolist(), strict=True)):
        rest, ordered = np.delete(row, label), np.sort(row)[::-1]
        margin = rest.max() - row[label]
        scale = ordered[0] - ordered[2] if classes >= 4 else np.ptp(clean[i].numpy())
        expected = [np.log(np.exp(row).sum()) - row[label], margin / scale, margin]
        for objective, value in zip(ALL, expected, strict=True):
            assert float(objective(logits, clean, target)[i]) == pytest.approx(value)


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_the_ratio_minds_neither_shift_nor_scale(classes: int) -> None:
    logits, clean, _, target = draw(classes)
    torch.testing.assert_close(Dlr()(1e4 * logits - 7, 1e4 * clean - 7, target), Dlr()(logits, clean, target))


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_the_margin_and_the_ratio_are_positive_exactly_where_the_class_is_lost(classes: int) -> None:
    logits, clean, labels, target = draw(classes)
    lost = logits.argmax(1) != labels
    assert 0 < int(lost.sum()) < len(lost)
    assert torch.equal(ClassMargin()(logits, clean, target) > 0, lost)
    assert torch.equal(Dlr()(logits, clean, target) > 0, lost)


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("objective", ALL, ids=lambda o: type(o).__name__)
def test_every_image_that_is_right_has_a_way_up(objective: Objective, classes: int) -> None:
    """Over two classes the published ratio is -1 wherever the class is kept: no gradient, whatever the image."""
    logits, clean, _, target = draw(classes)
    right = ClassMargin()(logits, clean, target) < 0
    slope = gradient(objective, logits, clean, target)
    assert (slope[right].abs().amax(1) > 1e-9).all()
    assert (slope[right].gather(1, target[right].argmax(1, keepdim=True)) < 0).all()


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("objective", ALL, ids=lambda o: type(o).__name__)
def test_equal_logits_have_a_value(objective: Objective, classes: int) -> None:
    flat, target = torch.full((1, classes), 5.0), one_hot(torch.tensor([1]), classes).float()
    expected = np.log(classes) if isinstance(objective, CrossEntropy) else 0
    assert float(objective(flat, flat, target)) == pytest.approx(expected)
    assert torch.isfinite(gradient(objective, flat, flat, target)).all()


@pytest.mark.parametrize("objective", ALL, ids=lambda o: type(o).__name__)
def test_large_logits_stay_finite(objective: Objective) -> None:
    """Three classes ahead by as much: the ratio's scale is zero."""
    logits = torch.tensor([[1e4, -1e4, 0, 5], [0, 1e4, 1e4, 1e4]])
    target = one_hot(torch.tensor([0, 0]), 4).float()
    assert torch.isfinite(objective(logits, logits, target)).all()
    assert torch.isfinite(gradient(objective, logits, logits, target)).all()


def test_where_cross_entropy_vanishes_the_ratio_goes_on() -> None:
    logits, target = torch.tensor([[200.0, 0, 1, 2]]), one_hot(torch.tensor([0]), 4).float()
    assert not gradient(CrossEntropy(), logits, logits, target).any()
    assert gradient(Dlr(), logits, logits, target).any()
    assert gradient(ClassMargin(), logits, logits, target).any()


@pytest.mark.parametrize("classes", [3, 4, 10])
def test_one_class_is_gone_for_by_its_rank(classes: int) -> None:
    """The rank is that of the undisturbed image, whatever the attack has made of the logits."""
    logits, clean, labels, target = draw(classes)
    for rank in range(1, classes):
        margins, ratios = ClassMargin(rank)(logits, clean, target), Dlr(rank)(logits, clean, target)
        for i, label in enumerate(labels.tolist()):
            z, ordered = logits[i].numpy(), np.sort(logits[i].numpy())[::-1]
            others = [j for j in np.argsort(-clean[i].numpy()) if j != label]
            margin = z[others[rank - 1]] - z[label]
            scale = ordered[0] - ordered[2:4].mean() if classes >= 4 else np.ptp(clean[i].numpy())
            assert float(margins[i]) == pytest.approx(margin)
            assert float(ratios[i]) == pytest.approx(margin / scale)


@pytest.mark.parametrize("make", [Dlr, ClassMargin])
def test_ranks_that_no_class_has_are_refused(make: type[Dlr] | type[ClassMargin]) -> None:
    with pytest.raises(BadValue, match="-1"):
        make(-1)
    logits, clean, _, target = draw(3)
    with pytest.raises(Mismatch, match="got 3"):
        make(3)(logits, clean, target)


@pytest.mark.parametrize("objective", [Dlr(), ClassMargin()], ids=lambda o: type(o).__name__)
def test_a_single_class_is_refused(objective: Objective) -> None:
    with pytest.raises(Mismatch, match="got 1"):
        objective(torch.ones(3, 1), torch.ones(3, 1), torch.ones(3, 1))
