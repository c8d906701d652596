"""What attacks do at every step: sums that stay in the ball, pixels that stop at the box, numbers that are finite."""

import pytest
import torch
from torch import Tensor

from holdfast.core import Encoder, Rng, Shard
from holdfast.core.threat import towards
from holdfast.parts.attacks.shared.descent import _free
from holdfast.parts.attacks.shared.gradient import value_and_grad
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations import breaking_radii
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.runtime.errors import NotFinite


def test_a_sum_is_the_nearest_float_that_is_not_beyond() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4, 3, 20, 20, generator=generator)
    x[0, :, :5], x[0, :, 5:10] = 0, 1
    delta = (0.2 * torch.rand(x.shape, generator=generator) - 0.1) * (torch.rand(x.shape, generator=generator) > 0.1)
    at, exact = towards(x, delta), x.double() + delta.double()  # 53 bits hold every one of these sums
    assert ((at.double() - x.double()).abs() <= delta.double().abs()).all()
    farther = torch.nextafter(at, at + delta.sign())
    moves = (delta != 0) & (exact > 0) & (exact < 1)
    assert ((farther.double() - exact) * delta.sign() > 0)[moves].all()
    assert torch.equal(at[~moves], exact.clamp(0, 1).to(x)[~moves])  # still, or on the edge of the box
    rounded = (x + delta).clamp(0, 1)
    assert (at != rounded).any()  # where the nearest float is beyond
    assert (at == rounded).any()


def test_only_pixels_that_a_step_would_carry_out_of_the_box_stand_still() -> None:
    at = torch.tensor([-1e-8, 0, 1e-30, 0.5, 1 - 2**-24, 1, 1 + 2**-23])
    for gradient, free in ((-1e-30, [0, 0, 1, 1, 1, 1, 1]), (1e-30, [1, 1, 1, 1, 1, 0, 0]), (0.0, [0] * 7)):
        assert _free(at, torch.full_like(at, gradient)).tolist() == free


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_gradient_that_is_not_finite_is_counted_image_by_image(bad: float) -> None:
    weights = torch.tensor([1.0, bad, -bad]).view(3, 1, 1, 1)  # infinities of two signs
    with pytest.raises(NotFinite, match="2 of 3"):
        value_and_grad(lambda x: ((weights * x).flatten(1).sum(1), x.flatten(1)), torch.ones(3, 1, 2, 2))


def test_large_numbers_are_finite_though_their_sum_is_not() -> None:
    largest = torch.finfo(torch.float32).max
    values, _, gradient = value_and_grad(lambda x: (largest * x[:, 0, 0, 0], x.flatten(1)), torch.ones(2, 1, 2, 2))
    assert values.sum().isinf()
    assert gradient.isfinite().all()


def test_breaking_radii_compare_with_the_population_once_a_pass_unless_a_rival_is_pursued(monkeypatch) -> None:
    images = torch.rand(12, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    encoder, rows = Encoder(torch.nn.Flatten(), mean=0, std=1), torch.arange(12)
    calls: list[Tensor] = []

    class Counted(Nearest):
        def bind(self, shard):
            event = super().bind(shard)
            return lambda reps, rows: calls.append(reps) or event(reps, rows)

    shard = Shard(encoder, images, rows, Rng(0, ids=tuple(map(str, rows))), images.flatten(1), lambda at: images[at])
    found = BreakingRadii(failure=Counted(), steps=40).run(shard)
    assert len(calls) < 1.2 * encoder.passes.forward / 12
    # the same as where every representation is compared
    monkeypatch.setattr(breaking_radii, "_same", lambda a, b: False)
    again = BreakingRadii(steps=40).run(shard)
    assert all(torch.equal(found[name], again[name]) for name in ("radius", "halfway", "reps", "rival"))
