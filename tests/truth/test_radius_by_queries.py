"""Breaking radii by queries: against exact ones, from above, counted, and with no more than what each answer says."""

import pytest
import torch
from test_breaking_radius import N, exact, network, population, shard
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, Rng
from holdfast.parts.attacks.shared.asking import LEAST, ask
from holdfast.parts.attacks.shared.smallest import Smallest
from holdfast.parts.attacks.shared.tournament import Sought
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Missing

BALLS: list[Ball] = [Linf(), L2()]


def identity() -> Encoder:
    return Encoder(nn.Flatten(), mean=0, std=1)


class Counted(nn.Module):
    """A network that counts the images it has seen."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network, self.seen = network, 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return self.network(x)


@pytest.mark.parametrize("only_ranks", [False, True])
@pytest.mark.parametrize("ball", BALLS, ids=["linf", "l2"])
def test_radii_of_a_linear_encoder_are_approached_from_above(ball: Ball, only_ranks: bool) -> None:
    """Its smallest changes are known: to the planes half way to other images."""
    images = population()
    truth = exact(images, ball)
    found = {
        queries: BreakingRadii(ball, queries=queries, only_ranks=only_ranks).run(shard(identity(), images))["radius"]
        for queries in (100, 1000)
    }
    for radius in found.values():
        assert bool((radius >= truth * (1 - 1e-5)).all())
    # the straight way to the nearest image is the smallest change in the Euclidean norm
    most = 1.25 if ball.is_box else 1.05
    assert float((found[1000] / truth).median()) < most
    assert float(found[1000].median()) <= float(found[100].median())


@pytest.mark.parametrize("ball", BALLS, ids=["linf", "l2"])
def test_ranks_alone_decide_a_search_by_ranks(ball: Ball) -> None:
    """Distances that say something else, of which the goal is made, change nothing."""
    images = population()
    near = shard(Encoder(network(), mean=0, std=1), images)
    event, rows = Nearest().bind(near), torch.arange(N)
    rivals = Nearest().rivals(near, 3)
    assert rivals is not None
    positions = rivals.positions
    assert positions is not None

    def search(misled: bool, only_ranks: bool) -> Smallest:
        def goal(x: Tensor) -> tuple[Tensor, Tensor]:
            reps = near.encoder(x)
            values = event(reps[:, None].double(), rows)[:, 0].to(x)
            return (-values if misled else values), reps

        def breaks(reps: Tensor) -> Tensor:
            return event(reps[:, None].double(), rows)[:, 0] > 1e-4

        sought = Sought(goal, breaks, (), lambda number: images[positions[:, number]], 3)
        rng = Rng(0, ids=tuple(map(str, range(N))))
        with torch.no_grad():
            return ask(sought, near.x, ball, 200, rng, only_ranks=only_ranks)[0]

    honest, misled = search(False, True), search(True, True)
    assert torch.equal(honest.radius, misled.radius)
    assert torch.equal(honest.image, misled.image)
    # which is not for want of an effect: what reads distances is misled
    assert not torch.equal(search(False, False).radius, search(True, False).radius)


@pytest.mark.parametrize("only_ranks", [False, True])
@pytest.mark.parametrize("ball", BALLS, ids=["linf", "l2"])
@pytest.mark.parametrize("queries", [LEAST, 150])
def test_no_more_is_asked_than_is_said(ball: Ball, only_ranks: bool, queries: int) -> None:
    images, counted = population(), Counted(network())
    seen = shard(Encoder(counted, mean=0, std=1), images)
    counted.seen = 0
    asked = BreakingRadii(ball, queries=queries, only_ranks=only_ranks)
    asked.run(seen)
    assert counted.seen <= queries * N
    assert asked.passes.forward == queries
    if only_ranks:  # whose steps are one query each
        assert counted.seen == queries * N


@pytest.mark.parametrize("ball", BALLS, ids=["linf", "l2"])
def test_batches_change_nothing_and_seeds_do(ball: Ball) -> None:
    images, encoder = population().double(), Encoder(network().double(), mean=0, std=1)
    asked = BreakingRadii(ball, queries=120, only_ranks=True)
    whole = asked.run(shard(encoder, images))["radius"]
    parts = [asked.run(shard(encoder, images, torch.arange(*ends)))["radius"] for ends in ((0, 5), (5, N))]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-6, atol=0)
    other = shard(encoder, images)
    reseeded = type(other)(
        other.encoder, other.x, other.positions, Rng(1, ids=tuple(map(str, range(N)))), other.clean,
        others=other.others,
    )  # fmt: skip
    assert not torch.equal(asked.run(reseeded)["radius"], whole)


@pytest.mark.parametrize("ball", BALLS, ids=["linf", "l2"])
def test_queries_of_ranks_lead_on_from_the_straight_ways(ball: Ball) -> None:
    """The first 60 are hardly more than these; the steps after them make the change a third smaller."""
    seen = shard(Encoder(network(), mean=0, std=1), population())
    few, many = (
        BreakingRadii(ball, queries=queries, only_ranks=True).run(seen)["radius"].median() for queries in (60, 400)
    )
    assert float(many / few) < 0.7


@pytest.mark.parametrize("ball", BALLS, ids=["linf", "l2"])
def test_what_is_found_by_ranks_breaks_the_image(ball: Ball) -> None:
    images = population()
    seen = shard(Encoder(network(), mean=0, std=1), images)
    results = BreakingRadii(ball, queries=300, only_ranks=True).run(seen)
    nearest = torch.cdist(results["reps"], seen.clean if seen.clean is not None else torch.empty(0)).argmin(1)
    assert torch.equal(nearest, results["rival"])
    assert bool((nearest != torch.arange(N)).all())
    assert bool((results["radius"] <= results["halfway"]).all())


def test_ranks_are_asked_for_by_queries() -> None:
    with pytest.raises(Missing) as error:
        BreakingRadius(only_ranks=True)
    assert "give queries=500" in str(error.value)
    assert "queries of ranks" in BreakingRadii(queries=100, only_ranks=True).title
