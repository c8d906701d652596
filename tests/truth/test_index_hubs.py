"""Hubs, made and proved impossible, against brute force."""

from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Encoder, HoldfastError, Margin, Rng, Shard
from holdfast.core.divergence import read_divergence
from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.geometry.index import Index, exclude
from holdfast.numerics.geometry.rescaling import Rescaling
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.hub import Hub
from holdfast.parts.measures.certified.certified_hubness import CertifiedHubness
from holdfast.parts.measures.retrieval.adversarial_hubness import AdversarialHubness
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.entry_radii import EntryRadii
from holdfast.parts.rescalings.csls import Csls
from holdfast.parts.rescalings.local_scaling import LocalScaling
from holdfast.parts.rescalings.mutual_proximity import MutualProximity
from holdfast.parts.rescalings.plain import Plain
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Failed, NotCertified, NotEnough, UnknownName

RESCALINGS = (Plain(), Csls(neighbours=3), LocalScaling(neighbours=3), MutualProximity())
ITEMS, DIM = 24, 5


def reps_of(count: int, dim: int = DIM, seed: int = 0) -> Tensor:
    # Around one point, so that cosines are above 0 as those of encoders are
    own = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return own + 1.5


def brute_force(reps: Tensor, moved: Tensor, host: int, k: int, divergence: Divergence, by: Rescaling) -> list[bool]:
    """Whether what stands in a host's place is strictly nearer to each query than its k-th result without the host."""

    def around(of: Tensor, place: int) -> Tensor:
        return by.local(torch.stack([divergence(of, reps[other]) for other in range(len(reps)) if other != place]))

    known = [around(rep, place) for place, rep in enumerate(reps)]
    of_moved, taken = around(moved, host), []
    for q, query in enumerate(reps):
        results = [
            float(by(divergence(query, reps[i]), known[q], known[i])) for i in range(len(reps)) if i not in (q, host)
        ]
        own = float(by(divergence(query, moved), known[q], of_moved))
        taken.append(q != host and own < sorted(results)[k - 1] - 1e-9)
    return taken


@pytest.mark.parametrize("rescaling", RESCALINGS, ids=str)
@pytest.mark.parametrize(("name", "k"), [("l2", 1), ("cosine", 3)])
def test_who_is_taken_is_what_brute_force_says(name: str, k: int, rescaling: Rescaling) -> None:
    divergence = read_divergence(name)
    reps, index = reps_of(ITEMS), Index.of(reps_of(ITEMS), k, divergence, rescaling)
    hosts, moved = torch.tensor([3, 7]), torch.stack([reps.mean(0), reps[5] + 0.01])
    found = index.apart(moved, hosts) < index.reach_without(hosts) - index.slack
    assert found.tolist() == [brute_force(reps, moved[m], h, k, divergence, rescaling) for m, h in enumerate((3, 7))]
    assert found.any(), "nobody is taken: the test shows nothing"
    # As they are, items stand where their own place in the lists says
    assert index.hold(torch.arange(ITEMS)).sum(0).tolist() == [k] * ITEMS


def test_one_who_equals_others_has_its_own_list() -> None:
    reps = torch.zeros(6, 3)
    index = Index.of(reps, 2, L2(), Plain())
    assert all(own not in others for own, others in enumerate(index.positions.tolist()))


def test_one_who_equals_a_result_is_no_nearer() -> None:
    """Three of each, by an encoder that rounds otherwise in another batch."""
    reps = reps_of(ITEMS).float().repeat_interleave(3, 0)
    x = reps.view(3 * ITEMS, 1, 1, DIM)
    shard = Shard(Encoder(nn.Flatten(), mean=0, std=1), x[:2], torch.arange(2), Rng(0, ids=("a", "b")), reps)
    value = Hub().bind(shard)(reps[:2, None].double() * (1 + 1e-8), torch.arange(2))
    assert (value <= 0).all()


@pytest.mark.parametrize("rescaling", RESCALINGS, ids=str)
def test_an_image_is_a_hub_where_enough_queries_are_taken(rescaling: Rescaling) -> None:
    reps = reps_of(ITEMS)
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    shard = Shard(encoder, reps.view(ITEMS, 1, 1, DIM)[:2].float(), torch.tensor([0, 1]), Rng(0, ids=("a", "b")), reps)
    points = reps.mean(0) + 0.7 * reps_of(12, seed=3) - 1.05
    ways: tuple[tuple[Literal["all", "known"], int], ...] = (("all", 1), ("known", 2))
    for queries, step in ways:
        counts = torch.stack([
            torch.tensor([brute_force(reps, point, host, 1, L2(), rescaling) for point in points])[:, ::step].sum(1)
            for host in (0, 1)
        ])  # fmt: skip
        asked = torch.tensor([len(range(0, ITEMS, step)) - (host % step == 0) for host in (0, 1)])
        for share in (0.01, 0.1, 0.3):
            event = Hub(share=share, queries=queries, rescaling=rescaling).bind(shard)
            value = event(points.expand(2, -1, -1), torch.arange(2))
            enough = (share * asked).ceil().clamp_min(1)[:, None]
            assert torch.equal(value > 0, counts >= enough)
            # The whole part is the count, the rest a smooth one
            assert torch.equal((value * asked[:, None] + enough).floor(), counts.double())


@pytest.mark.parametrize("rescaling", RESCALINGS, ids=str)
def test_the_gradient_leads_to_more_queries(rescaling: Rescaling) -> None:
    reps = reps_of(ITEMS)
    shard = Shard(
        Encoder(nn.Flatten(), mean=0, std=1), reps.view(ITEMS, 1, 1, DIM)[:1].float(), torch.tensor([0]),
        Rng(0, ids=("a",)), reps,
    )  # fmt: skip
    event, row = Hub(rescaling=rescaling).bind(shard), torch.tensor([0])
    point = (reps[:1] + 0.1).requires_grad_()
    (slope,) = torch.autograd.grad(event(point[None], row).sum(), point)
    # All queries of a small index weigh in it, so it is the derivative of the smooth part, in every direction
    for direction in torch.eye(DIM, dtype=torch.float64):
        ends = [event((point + sign * 1e-6 * direction)[None].detach(), row) for sign in (1, -1)]
        assert float(ends[0] - ends[1]) / 2e-6 == pytest.approx(float(slope @ direction), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("divergence", [L2(), Cosine()], ids=str)
def test_a_half_space_holds_nothing_within_reach_and_touches_it(divergence: Any) -> None:
    queries, reps = reps_of(8), reps_of(6, seed=1)
    reach = torch.rand(6, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    reach = reach * (0.1 if divergence.of_directions else 2)
    reach[0, 0] = -torch.inf
    weights, bias = exclude(queries, reach, reps, divergence.of_directions)
    apart = torch.stack([divergence(queries, rep) for rep in reps])
    outside = (apart > reach) & reach.isfinite()
    assert torch.equal(weights.any(2), outside)
    assert outside.any()
    assert not outside.all()
    # Of many points none of the half-space is within reach
    points = 3 * torch.randn(20_000, DIM, generator=torch.Generator().manual_seed(4), dtype=torch.float64) + 1.5
    inside = 0
    for m, q in outside.nonzero().tolist():
        held = points @ weights[m, q] + bias[m, q] > 0
        within = divergence(queries[q], points) <= reach[m, q]
        assert not (held & within).any()
        inside += int(within.sum())
        # The distance from the half-space's edge is that from what must not be entered
        aside = float(reps[m] @ weights[m, q] + bias[m, q])
        if divergence.of_directions:
            angle = torch.acos(1 - apart[m, q]) - torch.acos(1 - reach[m, q])
            assert aside == pytest.approx(float(reps[m].norm() * angle.sin()))
        else:
            assert aside == pytest.approx(float(apart[m, q] - reach[m, q]))
    assert inside > 100, "no point was within reach: the test shows nothing"


def test_cones_of_more_than_a_right_angle_are_not_excluded() -> None:
    """A half-space that touches such a cone holds a part of it."""
    queries, reps = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[-1.0, 0.1]]).double()
    weights, bias = exclude(queries, torch.tensor([[1.5]]).double(), reps, True)
    assert not weights.any()
    assert not bias.any()


class Linear(nn.Module):
    def __init__(self, matrix: Tensor):
        super().__init__()
        self.layer = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False)
        self.layer.weight = nn.Parameter(matrix.float())

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1))


def linear_shard(count: int, hosts: int) -> Shard:
    random = torch.Generator().manual_seed(5)
    matrix = torch.randn(4, 9, generator=random)
    x = 0.3 + 0.4 * torch.rand(count, 1, 3, 3, generator=random)
    encoder = Encoder(Linear(matrix), mean=0, std=1)
    with torch.no_grad():
        clean = encoder(x)
    return Shard(encoder, x[:hosts], torch.arange(hosts), Rng(0, ids=tuple(map(str, range(hosts)))), clean)


def test_radii_of_linear_encoders_are_known() -> None:
    shard = linear_shard(20, 3)
    assert shard.clean is not None
    clean = shard.clean.double()
    radius = EntryRadii(divergence=L2(), ball=Linf(0.01), probes=60).run(shard)["radius"]
    reach = Index.of(clean, 1, L2(), Plain()).reach_without(shard.positions)
    weights, bias = exclude(clean, reach, clean[:3], False)
    # w · W x' + b is least at x - ε sign(Wᵀ w), as long as no pixel leaves [0, 1]
    (weight,) = shard.encoder.module.parameters()
    matrix = weight.detach().double()
    exact = Margin(weights, bias)(clean[:3]) / (weights @ matrix).abs().sum(2).clamp_min(1e-12)
    exact = exact.clamp_min(0).masked_fill(reach.isinf(), torch.inf)
    assert torch.equal(radius.isinf(), reach.isinf())
    inner = exact < 0.3
    assert inner.sum() > 10
    assert (radius[inner] <= exact[inner] + 1e-9).all()
    assert (radius[inner] >= exact[inner] / 1.05 - 1e-3).all()


@pytest.mark.parametrize("divergence", [L2(), Cosine()], ids=str)
def test_no_image_of_a_ball_enters_a_search_that_is_proved_to_be_safe(divergence: Any) -> None:
    random = torch.Generator().manual_seed(6)
    network = nn.Sequential(nn.Flatten(), nn.Linear(9, 12), nn.ReLU(), nn.Linear(12, 5))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random))
    encoder, x = Encoder(network, mean=0, std=1), torch.rand(20, 1, 3, 3, generator=random)
    with torch.no_grad():
        clean = encoder(x)
    shard = Shard(encoder, x[:4], torch.arange(4), Rng(0, ids=tuple("abcd")), clean)
    radius = EntryRadii(divergence=divergence, ball=Linf(0.02)).run(shard)["radius"]
    index = Index.of(clean, 1, divergence, Plain())
    reach, safe = index.reach_without(shard.positions), 0
    for epsilon in (0.01, 0.02, 0.05, 0.1):
        # Corners of the ball and images inside it
        steps = torch.rand(400, 1, 3, 3, generator=random) * 2 - 1
        steps[::2] = steps[::2].sign()
        for host in range(4):
            with torch.no_grad():
                reps = encoder((x[host] + epsilon * steps).clamp(0, 1)).double()
            taken = (index.apart(reps, torch.full((400,), host)) < reach[[host]] - index.slack).any(0)
            assert not (taken & (radius[host] >= epsilon)).any()
            safe += int((radius[host] >= epsilon).sum()) - 1
    assert safe > 20, "nothing is proved: the test shows nothing"


class Seen:
    """A subject of representations that are given, and of hubs."""

    def __init__(self, clean: Tensor, made: dict[Any, Tensor], radius: Tensor | None = None):
        self._clean, self._made, self._radius = clean, made, radius
        self.population, self.ids = len(clean), [str(i) for i in range(len(clean))]

    def read(self, observation: Any) -> dict[str, Tensor]:
        if isinstance(observation, Clean):
            return {"reps": self._clean}
        if isinstance(observation, EntryRadii):
            assert self._radius is not None
            return {"radius": self._radius}
        assert isinstance(observation, Broken)
        assert isinstance(observation.failure, Hub)
        assert observation.failure.queries == "known", "the search has seen the queries that judge it"
        return {"reps": self._made[observation.failure.rescaling]}

    def collect_points(self, ball: Any) -> list[Tensor]:
        return [reps[:, None].double() for reps in self._made.values()]


def test_hubs_are_chosen_by_one_quarter_of_queries_and_judged_by_another() -> None:
    clean = reps_of(40, 30)
    # The second of three hubs stands in the middle, where most searches end
    made = torch.stack([clean[0], clean.mean(0), clean[2] + 9])
    measure = AdversarialHubness(hubs=3)
    table = measure.observe(Seen(clean, {Plain(): made}))  # pyright: ignore[reportArgumentType]
    taken = torch.tensor([brute_force(clean, rep, host, 1, L2(), Plain()) for host, rep in enumerate(made)])
    judged = torch.arange(40) % 4 == 3
    assert table["best"].nonzero().flatten().tolist() == [1]
    assert torch.equal(~table["taken"].isnan(), judged)
    assert torch.equal(table["taken"][judged], taken[1, judged].double())
    assert table["stands out"][:3].tolist() == [0, 1, 0]
    scores = measure.score(table)
    assert scores["best hub"].value == pytest.approx(float(taken[1, judged].double().mean()))
    assert taken[1, judged].double().mean() > 0.3, "the hub is none"
    # Nobody is asked whether an image takes the search for itself: 3 judges no hub here
    assert scores["mean over hubs"].value == pytest.approx(float(taken[:, judged].double().mean()))
    index = Index.of(clean, 1, L2(), Plain())
    before = index.hold(torch.arange(3))[:, judged].double().mean()
    assert scores["unchanged images"].value == pytest.approx(float(before))


def test_the_kind_of_hub_that_takes_more_is_judged() -> None:
    clean, csls = reps_of(40, 30), Csls(neighbours=3)
    # One stands beside a query that chooses, the other beside one that judges
    kind, aside = clean[[5, 7]] + 0.01, clean[:2] + 9
    for made in ({csls: aside, Plain(): kind}, {csls: kind, Plain(): aside}):
        subject = Seen(clean, made)
        table = AdversarialHubness(hubs=2, rescaling=csls).observe(subject)  # pyright: ignore[reportArgumentType]
        taken = torch.tensor([brute_force(clean, kind[host], host, 1, L2(), csls) for host in (0, 1)])
        judged = torch.arange(40) % 4 == 3
        found = torch.stack([table["taken by 0"], table["taken by 1"]])
        assert torch.equal(found[:, judged].nan_to_num(0) == 1, taken[:, judged])
        assert taken[:, judged].any(), "nobody is taken: the test shows nothing"


def test_a_proof_that_an_attack_refutes_is_no_number() -> None:
    clean = reps_of(20)
    made = torch.stack([clean.mean(0), clean[1]])
    radius = torch.zeros(2, 20, dtype=torch.float64)
    measure = CertifiedHubness(ball=Linf(0.05), divergence=L2(), first=2)
    table = measure.observe(Seen(clean, {Plain(): made}, radius))  # pyright: ignore[reportArgumentType]
    assert measure.score(table)["certificate"].value == 1
    taken = torch.tensor(brute_force(clean, made[0], 0, 1, L2(), Plain()))
    radius[0, ~taken] = 0.1
    table = measure.observe(Seen(clean, {Plain(): made}, radius))  # pyright: ignore[reportArgumentType]
    # What is not proved is what was taken, and of the second image nothing is proved
    assert table["certificate by 0"].nan_to_num(0).tolist() == taken.double().tolist()
    assert measure.score(table)["attack"].value == pytest.approx(float(taken.sum()) / 38, abs=1 / 38)
    radius[0, taken] = 0.05
    with pytest.raises(Failed):
        measure.observe(Seen(clean, {Plain(): made}, radius))  # pyright: ignore[reportArgumentType]


def test_a_search_finds_more_than_chance() -> None:
    """Pixels as representations: the middle of a crowd is reached by the ball, and takes most searches there."""
    random = torch.Generator().manual_seed(8)
    x = 0.5 + 0.1 * torch.randn(60, 1, 6, 6, generator=random).clamp(-3, 3)
    clean = x.flatten(1)
    shard = Shard(Encoder(nn.Flatten(), mean=0, std=1), x[:2], torch.arange(2), Rng(0, ids=("a", "b")), clean)
    found = Broken(Apgd(60), Linf(0.3), Hub(queries="known")).run(shard)
    index, hosts = Index.of(clean, 1, L2(), Plain()), torch.arange(2)
    taken = (index.apart(found["reps"].double(), hosts) < index.reach_without(hosts))[:, ::2].double().mean(1)
    middle = (index.apart(clean.mean(0).double().expand(2, -1), hosts) < index.reach_without(hosts))[:, ::2]
    assert (taken >= 0.9 * middle.double().mean(1)).all()
    assert (taken > 0.5).all()


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda: Hub(share=0.0), BadValue, "share"),
        (lambda: CertifiedHubness(divergence=read_divergence("kl")), UnknownName, "divergence"),
        (lambda: EntryRadii(divergence=read_divergence("l1")), UnknownName, "divergence"),
        (lambda: Hub(k=19).bind(linear_shard(20, 2)), NotEnough, "21 images"),
        (lambda: Crown()(*_normalised()), NotCertified, "bias"),
    ],
)
def test_what_cannot_be_told_is_refused(make: Any, kind: type[HoldfastError], said: str) -> None:
    with pytest.raises(kind, match=said):
        make()


class Unit(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x.flatten(1), dim=1)


def _normalised() -> tuple[Encoder, Margin, Tensor, Linf]:
    """Distances between unit vectors are cosines; as ℓ2 distances their half-spaces have a bias."""
    encoder, x = Encoder(Unit(), mean=0, std=1), torch.rand(6, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    clean = encoder(x).double()
    reach = Index.of(clean, 1, L2(), Plain()).reach_without(torch.tensor([0]))
    return encoder, Margin(*exclude(clean, reach, clean[:1], False)), x[:1], Linf(0.01)
