"""What bounds take: foretold before it is done, told while it is done, and never more than is allowed."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from holdfast.core import Encoder, Margin
from holdfast.numerics.bounds import ranges as inside
from holdfast.numerics.bounds.backward import Region, backward, boxes, standard_relaxations
from holdfast.numerics.bounds.effort import Effort, Limit, Standing, listening
from holdfast.numerics.bounds.footprint import footprint, memory
from holdfast.numerics.bounds.forecast import forecast
from holdfast.numerics.bounds.forms import Dense, Patches
from holdfast.numerics.bounds.trace import trace
from holdfast.numerics.bounds.units import units
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.shared import certifier as shared
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Conflict, NotCertified

SIZE = (2, 12, 12)


class Block(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.inner = nn.Sequential(*(layer for _ in range(2) for layer in (conv(channels, channels), nn.ReLU())))

    def forward(self, x):
        return x + self.inner(x)


def conv(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride, padding=1)


def residual(seed: int = 0) -> Encoder:
    """A network in which windows grow, are added, and become dense."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [conv(2, 4), nn.ReLU(), Block(4), conv(4, 4, 2), nn.ReLU(), Block(4), nn.Flatten(), nn.Linear(144, 5)]
        return Encoder(nn.Sequential(*layers), mean=0, std=1)


def problem(eps: float = 0.02, images: int = 1) -> tuple[Encoder, Margin, torch.Tensor, Linf]:
    x = 0.3 + 0.4 * torch.rand(images, *SIZE, generator=torch.Generator().manual_seed(1))
    weights = torch.randn(images, 3, 5, generator=torch.Generator().manual_seed(2))
    return residual(), Margin(weights, torch.zeros(images, 3)), x, Linf(eps)


def test_a_footprint_counts_what_a_form_really_has(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, _, x, ball = problem()
    network = trace(encoder, SIZE)
    region = Region.around(ball, x, torch.tensor([ball.radius], dtype=torch.float64))
    ranges = boxes(network, region)
    relaxations = standard_relaxations(network, ranges)
    sizes: list[int] = []

    def watched(kind: type[Dense] | type[Patches]) -> None:
        for name in ("through", "relax"):
            before = getattr(kind, name)

            def count(form: Dense | Patches, *given: object, before=before) -> object:  # type: ignore[no-untyped-def]
                sizes.append(
                    form.coefs.numel()
                    // (form.coefs.shape[1] * form.coefs.shape[2] if isinstance(form, Patches) else form.coefs.shape[1])
                )
                return before(form, *given)

            monkeypatch.setattr(kind, name, count)

    watched(Dense)
    watched(Patches)
    for index in network.nonaffine_nodes:
        source = network.nodes[index].inputs[0]
        one = torch.zeros(network.nodes[source].shape, dtype=torch.bool)
        one.view(-1)[one.numel() // 2] = True
        for form, _ in units(one.shape, one, region.x, 1):
            sizes.clear()
            backward(network, source, form, region, ranges, relaxations)
            expected = footprint(network, source)
            image = min(expected.widest, torch.Size(SIZE).numel())
            assert sum(sizes) <= expected.coefficients <= sum(sizes) + image  # the image ends it: no operation there
            assert max(sizes) <= expected.widest


@pytest.mark.parametrize("eps", [0.002, 0.01, 0.05])
def test_a_forecast_is_right_to_a_factor_of_two(eps: float, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, _, x, ball = problem(eps)
    network = trace(encoder, SIZE)
    region = Region.around(ball, x, torch.tensor([eps], dtype=torch.float64))
    foretold: list[tuple[int, int, int]] = []
    counted: list[tuple[int, int]] = []

    def heard(effort: Effort, values) -> None:  # type: ignore[no-untyped-def]
        foretold.extend(values)

    affords = Effort.affords
    monkeypatch.setattr(Effort, "foretell", heard)
    monkeypatch.setattr(inside, "FORESIGHT", 0.0)
    monkeypatch.setattr(
        Effort,
        "affords",
        lambda self, node, count, climbing=False: counted.append((node, count)) or affords(self, node, count),
    )
    inside.ranges_inside(network, region)
    assert [node for node, *_ in foretold] == [node for node, _ in counted]
    told, true = sum(count for _, count, _ in foretold), sum(count for _, count in counted)
    assert true / 2 <= told <= 2 * true
    assert all(still <= count for _, count, still in foretold)


def test_a_forecast_counts_all_values_before_a_curve_that_is_no_relu() -> None:
    encoder = Encoder(nn.Sequential(conv(2, 3), nn.Tanh(), conv(3, 2), nn.Tanh(), nn.Flatten()), mean=0, std=1)
    network = trace(encoder, SIZE)
    x = torch.full((1, *SIZE), 0.5)
    region = Region.around(L2(0.1), x, torch.tensor([0.1], dtype=torch.float64))
    first, second = (network.nodes[index].inputs[0] for index in network.nonaffine_nodes)
    told = list(forecast(network, region, boxes(network, region), {first: False, second: False}))
    assert told == [(first, 3 * 144, 3 * 144), (second, 2 * 144, 2 * 144)]


@pytest.mark.parametrize("certifier", [Crown(minutes=1e-9), AlphaCrown(2, 2, minutes=1e-9)])
def test_what_is_too_much_is_refused_before_it_begins(
    certifier: Crown | AlphaCrown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "crown_box", lambda *given: pytest.fail("it began"))
    with pytest.raises(
        NotCertified,
        match="crown_ibp",
    ):
        certifier(*problem())
    CrownIbp()(*problem())


def test_what_was_foretold_wrongly_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Effort, "foretell", lambda self, values: None)
    with pytest.raises(NotCertified, match="foretold"):
        Crown(minutes=1e-9)(*problem())


def test_a_budget_that_refuses_changes_no_number() -> None:
    asked = problem()
    assert torch.equal(Crown(minutes=1)(*asked).lower, Crown(minutes=1000)(*asked).lower)


def test_the_more_may_be_done_the_more_is_proved_and_all_of_it_holds() -> None:
    encoder, margin, x, ball = asked = problem(0.05)
    proved = [CrownIbp()(*asked).lower]
    proved += [Crown(minutes=minutes, beyond="intervals")(*asked).lower for minutes in (1e-9, 5e-5, 2e-4, 1.0)]
    proved += [Crown()(*asked).lower]
    means = [float(lower.mean()) for lower in proved]
    assert means == sorted(means)
    assert means[1] < means[2] < means[3] < means[-1]
    assert torch.equal(proved[-1], proved[-2])
    corners = (x + ball.radius * torch.randn(200, *SIZE, generator=torch.Generator().manual_seed(3)).sign()).clamp(0, 1)
    with torch.no_grad():
        reached = (encoder.double()(corners.double()) @ margin.weights[0].double().T).amin(0)
    for lower in proved:
        assert bool((lower[0] <= reached).all())


@pytest.mark.sweep(2)
@pytest.mark.parametrize("minutes", [5e-5, 2e-4, 5e-4])
def test_what_fits_depends_on_no_other_image(minutes: float) -> None:
    """Of three images at three radii, values that are open in one alone cost the others nothing."""
    encoder, margin, x, ball = problem(0.05, images=3)
    radii = torch.tensor([0.002, 0.02, 0.1], dtype=torch.float64)
    certifier = Crown(minutes=minutes, beyond="intervals")
    together = certifier(encoder, margin, x, ball, radii).lower
    for i in range(3):
        part = slice(i, i + 1)
        alone = certifier(encoder, margin.part(part), x[part], ball, radii[part]).lower
        torch.testing.assert_close(together[part], alone, rtol=1e-9, atol=1e-9)


def test_published_crown_meets_no_intervals_not_even_for_want_of_time() -> None:
    with pytest.raises(Conflict, match="beyond = refuse"):
        Crown(intervals=False, beyond="intervals")


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan")])
def test_a_budget_is_positive(minutes: float) -> None:
    with pytest.raises(BadValue, match="minutes"):
        Crown(minutes=minutes)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("certifier", [Crown(), AlphaCrown(2, 2)])
@pytest.mark.parametrize("images", [1, 3])
def test_a_propagation_tells_how_far_it_is(
    certifier: Crown | AlphaCrown, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "FORESIGHT", 0.0)
    standings: list[Standing] = []
    with listening(standings.append):
        certifier(*problem(images=images))
    assert all(each.images == (1 if isinstance(certifier, AlphaCrown) else images) for each in standings)
    shares = [each.share for each in standings if each.total]
    starts = [number for number, share in enumerate(shares) if share == 0]
    assert len([each for each in standings if not each.total]) == len(starts)  # told before it is foretold
    assert len(starts) == (images if isinstance(certifier, AlphaCrown) else 1)
    for first, after in pairwise([*starts, len(shares)]):
        assert shares[first:after] == sorted(shares[first:after])
        assert after - first > 3
        assert 0.5 < shares[after - 1] <= 1


def test_an_accelerator_does_more_in_the_same_time() -> None:
    network = trace(residual(), SIZE)
    node = network.nodes[network.nonaffine_nodes[-1]].inputs[0]
    on_cpu, on_cuda = (Effort(network, Limit(1), device=device).total([(node, 10, 0)]) for device in ("cpu", "cuda"))
    assert on_cpu > 10 * on_cuda


def test_what_is_too_much_says_how_much() -> None:
    network = trace(residual(), SIZE)
    node = network.nodes[network.nonaffine_nodes[-1]].inputs[0]
    piece = Effort(network, Limit(1)).total([(node, 10**4, 0)])
    for seconds, said in ((120, "about 2 min"), (1000, "more than 5 min")):
        with pytest.raises(NotCertified, match=f"takes {said}"):
            Effort(network, Limit(1)).foretell([(node, 10**4, 0)] * round(seconds / piece))


def test_the_least_of_a_form_over_a_ball_that_is_no_box_counts() -> None:
    network = trace(residual(), SIZE)
    node = network.nodes[network.nonaffine_nodes[0]].inputs[0]
    box, ball = (Effort(network, Limit(1), is_box=is_box).total([(node, 10, 0)]) for is_box in (True, False))
    assert ball > 2 * box


def test_rows_that_do_not_fit_together_are_bounded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem(images=2)
    whole = [certifier(*asked).lower for certifier in (Crown(), CrownIbp())]
    monkeypatch.setattr(shared, "ROWS", 2)
    for certifier, expected in zip((Crown(), CrownIbp()), whole, strict=True):
        torch.testing.assert_close(certifier(*asked).lower, expected, rtol=0, atol=1e-12)


def test_memory_grows_with_images_and_rows_up_to_what_is_held_at_a_time() -> None:
    network = trace(residual(), SIZE)
    assert memory(network, 2) > memory(network) > memory(network, rows=1)
    assert memory(network, rows=10**9) == memory(network, rows=10**8)
