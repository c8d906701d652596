"""Objectives against their papers' formulas, computed one image at a time in float64 numpy."""

import numpy as np
import pytest
import torch
from torch import Tensor

from divergences import divergence
from holdfast.core import Objective, registry
from holdfast.parts.objectives.info_nce import InfoNce
from holdfast.parts.objectives.instance_contrastive import InstanceContrastive
from holdfast.parts.objectives.logistic_contrastive import LogisticContrastive
from holdfast.parts.objectives.loss import Loss
from holdfast.parts.objectives.nt_xent import NtXent
from holdfast.parts.objectives.shared.tokens import OfTokens
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.runtime.errors import BadValue, Failed, Mismatch, Missing


def draw(rows: int = 4, dim: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    reps, clean, target = torch.randn(3, rows, dim, generator=random).double()
    return 3 * reps, clean, target


def similarity(a: Tensor, b: Tensor) -> float:
    a, b = a.detach().numpy(), b.detach().numpy()
    return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_nt_xent_is_simclrs(temperature) -> None:
    """Chen et al. (2020), Eq. 1, over the 2B views, and their mean as the loss of the batch."""
    reps, clean, _ = draw()
    views, batch = [*reps, *clean], len(reps)

    def loss(i: int, j: int) -> float:
        others = [np.exp(similarity(views[i], views[k]) / temperature) for k in range(2 * batch) if k != i]
        return -np.log(np.exp(similarity(views[i], views[j]) / temperature) / sum(others))

    both = np.array([loss(i, i + batch) + loss(i + batch, i) for i in range(batch)])
    found = NtXent(temperature)(reps, clean)
    np.testing.assert_allclose(found, both / 2, rtol=1e-9)
    assert float(found.mean()) == pytest.approx(both.sum() / (2 * batch))


@pytest.mark.parametrize("negatives", [0, 7])
def test_info_nce_is_mocos(negatives) -> None:
    """Each query against all keys of the batch, and a queue of any length."""
    reps, keys, _ = draw()
    queue = torch.randn(negatives, 5, generator=torch.Generator().manual_seed(1)).double()
    expected = []
    for i, query in enumerate(reps):
        logits = np.array([similarity(query, key) / 0.2 for key in [*keys, *queue]])
        expected.append(-logits[i] + np.log(np.exp(logits).sum()))
    found = InfoNce(0.2)(reps, keys, queue if negatives else None)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("negatives", [0, 7])
def test_against_queries_it_is_that_of_ho_and_vasconcelos(negatives) -> None:
    """Petrov & Kwiatkowska, A.2: each key against all attacked images; of unit vectors, as in MoCo."""
    queries, keys, _ = draw()
    further = torch.randn(negatives, 5, generator=torch.Generator().manual_seed(1)).double()
    expected = []
    for i, key in enumerate(keys):
        similar = np.array([np.exp(similarity(query, key) / 0.2) for query in [*queries, *further]])
        expected.append(-np.log(similar[i] / similar.sum()))
    found = InfoNce(0.2, against="queries")(queries, keys, further if negatives else None)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not np.allclose(found, InfoNce(0.2)(queries, keys, further if negatives else None))


def test_instance_contrastive_is_kims() -> None:
    reps, clean, target = draw()
    expected = []
    for x, positive, negative in zip(reps, clean, target, strict=True):
        up, down = (np.exp(similarity(x, other) / 0.3) for other in (positive, negative))
        expected.append(-np.log(up / (up + down)))
    np.testing.assert_allclose(InstanceContrastive(0.3)(reps, clean, target), expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [(), (1,), (6,), (3, 2)])
def test_logistic_contrastive_is_that_of_rvcl(shape) -> None:
    """Wang & Liu, Eq. 1 for K negatives and Eq. 43 for K of each of p classes, in log₂, of inner products."""
    reps, clean, _ = draw()
    target = torch.randn(4, *shape, 5, generator=torch.Generator().manual_seed(2)).double()
    expected = []
    for x, positive, negatives in zip(reps.numpy(), clean.numpy(), target.numpy(), strict=True):
        v = [x @ (positive - negative) for negative in negatives.reshape(-1, 5)]
        expected.append(np.log2(1 + sum(np.exp(-margin) for margin in v)))
    loss = LogisticContrastive()
    np.testing.assert_allclose(loss(reps, clean, target), expected, rtol=1e-9)
    alone = torch.stack([loss(reps, clean, one) for one in target.reshape(4, -1, 5).unbind(1)])
    assert bool((alone.amax(0) - 1e-12 <= torch.tensor(expected)).all())
    assert bool((torch.tensor(expected) <= alone.sum(0) + 1e-12).all())


def test_logistic_contrastive_of_large_products_is_finite() -> None:
    big = torch.tensor([[1e4, 0.0]])
    assert LogisticContrastive()(big, -big, big[:, None]).item() == pytest.approx(2e8 / np.log(2), rel=1e-6)


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 6), (5,)])
def test_negatives_of_other_images_or_dimensions_are_refused(shape) -> None:
    reps, clean, _ = draw()
    with pytest.raises(Mismatch) as error:
        LogisticContrastive()(reps, clean, torch.zeros(shape).double())
    assert "expected negatives [4, 5]" in str(error.value)


def test_hand_computed_values() -> None:
    """Orthonormal pairs x_i = v_i, T = 1: NT-Xent and InfoNCE are -log(e / (e + 2)) and -log(e / (e + 1))."""
    eye = torch.eye(2).double()
    assert NtXent(1.0)(eye, eye).tolist() == pytest.approx([np.log(1 + 2 / np.e)] * 2)
    assert InfoNce(1.0)(eye, eye).tolist() == pytest.approx([np.log(1 + 1 / np.e)] * 2)
    assert InstanceContrastive(1.0)(eye, eye, eye.flip(0)).tolist() == pytest.approx([np.log(1 + 1 / np.e)] * 2)


OBJECTIVES: list[Objective] = [
    Loss(lambda reps, clean, target: (reps * clean).sin().sum(1))
    if name == "loss"
    else registry.find("objectives", name)(
        **({"dim": 1} if issubclass(registry.find("objectives", name), OfTokens) else {})
    )
    for name in registry.names("objectives")
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: type(o).__name__)
def test_gradient_by_finite_differences(objective) -> None:
    """The gradient of the sum over the batch, which attacks climb, in every direction of every image."""
    reps, clean, target = draw(3, 4)
    x = reps.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(x, clean, target).sum(), x)
    for index in np.ndindex(*reps.shape):
        step = torch.zeros_like(reps)
        step[index] = 1e-6
        rise = objective(reps + step, clean, target).sum() - objective(reps - step, clean, target).sum()
        assert float(rise) / 2e-6 == pytest.approx(float(gradient[index]), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: type(o).__name__)
def test_coupling_is_declared(objective) -> None:
    """Whether moving one image changes the value of another is what `batchwise` says."""
    reps, clean, target = draw()
    other = reps.clone()
    other[0] += 1
    coupled = not torch.equal(objective(reps, clean, target)[1:], objective(other, clean, target)[1:])
    assert objective.batchwise or not coupled
    if isinstance(objective, (NtXent,)):
        assert coupled


def test_losses_rise_as_views_part() -> None:
    reps, clean, target = draw()
    for objective in (NtXent(), InfoNce(), InstanceContrastive()):
        assert (objective(-clean, clean, target) > objective(clean, clean, target)).all()
    contrast = InstanceContrastive()
    assert (contrast(target, clean, target) > contrast(reps, clean, target)).all()


@pytest.mark.parametrize("shape", ["scalar", "column", "wrong length"])
def test_loss_must_give_one_value_per_image(shape) -> None:
    functions = {
        "scalar": lambda reps, clean, target: reps.sum(),
        "column": lambda reps, clean, target: reps[:, :1],
        "wrong length": lambda reps, clean, target: reps[:-1, 0],
    }
    reps, clean, _ = draw()
    with pytest.raises(Failed, match=r"\[4\]"):
        Loss(functions[shape])(reps, clean)


def test_loss_passes_everything_on() -> None:
    reps, clean, target = draw()
    found = Loss(lambda a, b, c: (a + 2 * b + 3 * c).sum(1))(reps, clean, target)
    torch.testing.assert_close(found, (reps + 2 * clean + 3 * target).sum(1))


@pytest.mark.parametrize("name", sorted(registry.names("divergences")))
def test_drift_rises_and_impersonation_falls_with_distance(name) -> None:
    reps, clean, target = (x[:, :4] for x in draw())
    torch.testing.assert_close(Untargeted(divergence(name))(reps, clean), divergence(name).pursue(reps, clean))
    torch.testing.assert_close(Targeted(divergence(name))(reps, clean, target), -divergence(name).pursue(reps, target))
    assert (Untargeted(divergence(name))(reps, clean) > Untargeted(divergence(name))(clean, clean)).all()
    assert (Targeted(divergence(name))(target, clean, target) > Targeted(divergence(name))(clean, clean, target)).all()


def test_objectives_that_need_a_target_say_so() -> None:
    reps, clean, _ = draw()
    for objective in (Targeted(), InstanceContrastive()):
        with pytest.raises(Missing):
            objective.pursue(lambda x: reps, clean)


@pytest.mark.parametrize("objective", [Untargeted, Targeted])
def test_unknown_divergences_are_refused_at_once(objective) -> None:
    with pytest.raises(BadValue, match=r"'squared_l2'\?"):
        objective("squard_l2")
