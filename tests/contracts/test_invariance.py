"""What changes no distance changes no number: every objective, failure, measure and check, of f and of T after f."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_audit_parts import ATTACKED, IMAGES, LABELS, audit, check, measure, network
from torch import Tensor, nn

from holdfast.core import Encoder, Failure, Grid, HoldfastError, Objective, Rng, Shard, registry
from holdfast.numerics.geometry.invariance import CHANGES, invariances
from holdfast.numerics.geometry.spread import spread
from holdfast.parts.checks.collapse import Collapse
from holdfast.parts.failures.outranked import Outranked
from holdfast.parts.failures.shared.thresholds import AtThreshold
from holdfast.parts.objectives.loss import Loss
from holdfast.parts.objectives.shared.tokens import OfTokens
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.runtime.errors import BadValue, NothingAudited

SIZES = (1e-6, 1e-3, 1.0, 1e3, 1e5, 1e7)
FIRST = (1e-3, 1e3, 1e7)
"""The sizes that the fast suite tries."""
DTYPES = (torch.float32, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (torch.float16, torch.float64)))
KINDS = ("divergences", "measures", "quantities", "failures", "objectives", "checks", "probes")
CHANGED = [
    pytest.param(change, size, marks=[pytest.mark.slow] * (len(sizes) > 1 and size not in FIRST))
    for change in CHANGES
    for sizes in [SIZES if change in ("translation", "scaling", "constants") else (1.0,)]
    for size in sizes
]
TOKENS, DIM = 6, 2


class Changed(nn.Module):
    """T: what changes no distance, in a number format; token by token, so that patches stay patches.

    Args:
        change: one of `CHANGES`.
        size: of the shift, the factor or the constant, the first and the last in units of `unit`.
        unit: how far representations lie apart.
        dtype: of what comes out.
        whole: whether all coordinates are turned or exchanged, and not those of a token alone.
    """

    def __init__(self, change: str, size: float, unit: float, dtype: torch.dtype, whole: bool = False) -> None:
        super().__init__()
        self.change, self.size, self.unit, self.dtype, self.whole = change, size, unit, dtype, whole
        side = TOKENS * DIM if whole else DIM
        random = torch.Generator().manual_seed(3)
        self.register_buffer("turn", torch.linalg.qr(torch.randn(side, side, generator=random))[0])

    def forward(self, reps: Tensor) -> Tensor:
        side = reps.shape[1] if self.whole else DIM
        tokens = (reps.double() if self.dtype == torch.float64 else reps).unflatten(1, (-1, side))
        match self.change:
            case "translation":
                tokens = tokens + self.size * self.unit
            case "rotation":
                tokens = tokens @ self.turn.to(tokens)
            case "scaling":
                tokens = tokens * self.size
            case "permutation":
                tokens = tokens.flip(2)
            case "constants":
                tokens = nn.functional.pad(tokens, (0, 1), value=self.size * self.unit)
        reps = tokens.flatten(1)
        return reps if self.dtype == torch.float32 else reps.to(self.dtype)  # a cast that certificates do not read


def representations(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, TOKENS * DIM, generator=torch.Generator().manual_seed(seed))


def void(reps: Tensor) -> bool:
    """Whether an audit of these representations is void; it then says why."""
    if not bool(reps.isfinite().all()):
        return True  # which fails by name
    verdict = Collapse().of(reps)
    if verdict.status == "fail":
        assert "precision" in verdict.finding + verdict.meaning
    return verdict.status == "fail"


def must_be_told(change: str, size: float, dtype: torch.dtype) -> bool:
    """Whether there are digits enough, so that nothing may be void."""
    return dtype != torch.float16 and (change != "translation" or size < 1e5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_says_what_it_is_invariant_to(kind: str, subtests: pytest.Subtests) -> None:
    for name in registry.names(kind):
        with subtests.test(name):
            part = registry.find(kind, name)
            assert invariances(Loss(lambda reps, clean, target: reps[:, 0]) if part is Loss else part()) is not None


def test_an_unknown_change_is_refused() -> None:
    class Strange(Outranked):
        invariant = frozenset({"rotations"})

    with pytest.raises(BadValue, match="invariant"):
        invariances(Strange())


# --- objectives and failures, of numbers alone -----------------------------------------------------------


def objectives() -> Iterator[tuple[str, Objective]]:
    for name in registry.names("objectives"):
        kind: Any = registry.find("objectives", name)
        if kind is Loss:
            continue
        for divergence in registry.names("divergences") if "divergence" in kind.__dataclass_fields__ else ("",):
            try:
                yield f"{name} {divergence}".strip(), kind(**({"divergence": divergence} if divergence else {}))
            except HoldfastError:  # a divergence that it does not take
                continue


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("change", "size"), CHANGED)
def test_objectives_change_by_a_factor_at_most(change: str, size: float, dtype: torch.dtype, subtests) -> None:
    reps, clean, target = representations(20, 1), representations(20, 2), representations(20, 3)
    for name, objective in objectives():
        if change not in (invariances(objective) or ()):
            continue
        whole = not isinstance(objective, OfTokens)
        if objective.of_logits:
            target = nn.functional.one_hot(torch.arange(20) % 12, 12).float()
        changed = Changed(change, size, spread(clean), dtype, whole)
        if void(changed(clean).float()):
            continue

        def value(*sides: Tensor, dim: int, objective: Objective = objective) -> Tensor:
            own = type(objective)(**{**vars(objective), "dim": dim}) if isinstance(objective, OfTokens) else objective
            return own(*sides).double()

        before = value(reps, clean, target, dim=DIM)
        moved = [changed(side).float() for side in (reps, clean)] + [
            target if objective.of_logits else changed(target).float()
        ]
        after = value(*moved, dim=DIM + (change == "constants"))
        with subtests.test(name):
            factor = float((after @ before) / before.square().sum())
            assert factor > 0
            most = (1 if whole else 4) * _rounding(size, dtype)  # tokens are nearer to each other than images
            assert float((after / factor - before).norm() / before.norm()) < most


def _rounding(size: float, dtype: torch.dtype) -> float:
    """By which share values may differ: what is left of the digits, where that is not too few."""
    return 0.1 if dtype == torch.float16 or size > 1e3 else 1e-2 if size > 1 else 1e-3


def failures() -> Iterator[Failure]:
    for name in ("nearest", "confused", "outranked", "drifted", "unmatched", "collided"):
        kind: Any = registry.find("failures", name)
        rate = {"rate": 0.05} if issubclass(kind, AtThreshold) else {}
        yield from (kind(divergence=divergence, **rate) for divergence in ("l2", "cosine"))
    yield registry.find("failures", "misclassified")()


def bound(failure: Failure, clean: Tensor) -> Any:
    ids = tuple(map(str, range(len(clean))))
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    shard = Shard(
        encoder, torch.zeros(len(clean), 1, 1, 1), torch.arange(len(clean)), Rng(0, ids=ids), clean,
        labels=LABELS[: len(clean)], head=lambda probe: probe.fit(clean, LABELS[: len(clean)]),
        read=lambda observation: {"thumbnails": torch.arange(float(len(clean)))[:, None]}
        if isinstance(observation, Thumbnails) else observation.run(shard),
    )  # fmt: skip
    return failure.bind(shard), failure.rivals(shard)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("change", "size"), CHANGED)
def test_failures_are_the_same(change: str, size: float, dtype: torch.dtype, subtests) -> None:
    """The same images fail, by the same share of the way, and so are the margins that certificates bound."""
    clean, rows = representations(IMAGES), torch.arange(IMAGES)
    moved = clean + 1.5 * representations(IMAGES, 5)
    changed = Changed(change, size, spread(clean), dtype, whole=True)
    if void(changed(clean).float()):
        assert not must_be_told(change, size, dtype)
        return
    for failure in failures():
        if change not in (invariances(failure) or ()):
            continue
        with subtests.test(failure.title):
            (event, rivals), (after, rivals_after) = bound(failure, clean), bound(failure, changed(clean).float())
            expected, got = event(moved[:, None], rows), after(changed(moved).float()[:, None], rows)
            assert float((got - expected).norm() / expected.norm()) < _rounding(size, dtype)
            if rivals is not None and rivals.positions is not None:
                signs = [
                    r.margins(x.double()) < 0 for r, x in ((rivals, moved), (rivals_after, changed(moved).float()))
                ]
                assert float((signs[0].any(1) == signs[1].any(1)).double().mean()) > 0.9


# --- measures and checks, in audits -------------------------------------------------------------------------

QUICK = ("breaking_radius", "universal_quantile", "breakaway_risk", "nearest_neighbour_accuracy", "adversarial_margin")


@pytest.fixture(scope="module")
def pictures() -> Tensor:
    return torch.rand(IMAGES, 1, 8, 8, generator=torch.Generator().manual_seed(5))


def changed_network(change: str, size: float, dtype: torch.dtype, x: Tensor, whole: bool) -> Encoder:
    inner = network()
    with torch.no_grad():
        unit = spread(inner(x))
    module = nn.Sequential(inner.module, Changed(change, size, unit, dtype, whole))
    grid = Grid(2, 3, DIM + (change == "constants")) if not whole else None
    return Encoder(module, mean=0.5, std=0.5, origin={"normalisation": "a test"}, grid=grid)


def same(name: str, there: dict[str, Any], here: dict[str, Any], coarse: bool, subtests: pytest.Subtests) -> None:
    """Every score that is not void is the one of the other encoder: within 5 %, or what one image makes of a share.

    Twice as much where three digits are left, in half precision and behind a large offset: they decide images that are
    nearly as near to two others, and processors round them otherwise.
    """
    for title, score in here["scores"].items():
        other = there["scores"].get(title, {}).get("value")
        # which pair of edits is the worst is a choice, where a tie falls otherwise by rounding
        if score["standing"] == "void" or title == "best ε" or title.startswith("worst pair"):
            continue
        with subtests.test(f"{name}, {title}"):
            if score["value"] is None or other is None:  # what is missing says why: casts are not certified
                assert score["note"] or score["value"] is other
                continue
            one = 1.01 / ATTACKED if here["unit"] == "share" else 2e-3
            assert score["value"] == pytest.approx(other, rel=0.05 * (1 + coarse), abs=one * (1 + coarse))


def compare(tmp_path: Path, x: Tensor, reference: dict, changes: tuple, parts: dict, subtests: pytest.Subtests) -> None:
    change, size, dtype, whole = changes
    encoder = changed_network(change, size, dtype, x, whole)
    (there,) = reference["encoders"]
    with torch.no_grad():
        if not bool(encoder(x).isfinite().all()):  # beyond what half precision holds: an error by name
            with pytest.raises(NothingAudited, match="NaN"):
                audit(tmp_path, encoder, x, **parts)
            return
    (here,) = audit(tmp_path, encoder, x, **parts)["encoders"]
    for part in parts["measures"]:
        name = part.label
        # margins of classes may be as small as the last digits where distances between images are not
        close = change == "translation" and size > 1e4 and (part.needs_labels or name == "synbench")
        if change in (invariances(part) or ()) and here["measures"][name]["error"] is None and not close:
            coarse = dtype == torch.float16 or size > 1e3
            same(name, there["measures"][name], here["measures"][name], coarse, subtests)
    if here["checks"]["collapse"]["status"] == "fail":
        assert not must_be_told(change, size, dtype)
        return
    for part in parts["checks"]:
        name = registry.part_name(part)
        if change in (invariances(part) or ()):
            with subtests.test(f"check {name}"):
                failed = [entry["checks"][name]["status"] == "fail" for entry in (here, there)]
                assert failed[0] == failed[1], here["checks"][name]["finding"]  # of five images one may warn


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, pictures: Tensor) -> dict:
    return audit(tmp_path_factory.mktemp("quick"), network(), pictures, **quick_parts())


def quick_parts() -> dict[str, Any]:
    names = ("collapse", "batch_independence", "frozen", "gradient_health", "dimension_collapse", "large_radius")
    return {"measures": tuple(map(measure, QUICK)), "checks": tuple(map(check, names))}


FEW = [
    ("translation", 1e3, torch.float32), ("permutation", 1.0, torch.float16), ("constants", 5e5, torch.float32),
]  # fmt: skip
MORE = [
    ("translation", 1e3, torch.float16), ("rotation", 1.0, torch.float32), ("scaling", 1e7, torch.float32),
    ("translation", 3e4, torch.float32), ("translation", 1e5, torch.float32), ("translation", 1e7, torch.float64),
    ("translation", 1e2, torch.float16), ("scaling", 1e-6, torch.float32), ("scaling", 1e-6, torch.float16),
    ("constants", 1e7, torch.float64),
]  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("change", "size", "dtype"), [*FEW, *(pytest.param(*one, marks=pytest.mark.slow) for one in MORE)], ids=str
)
def test_a_first_look_is_the_same(change, size, dtype, quick: dict, pictures: Tensor, tmp_path, subtests) -> None:
    compare(tmp_path, pictures, quick, (change, size, dtype, True), quick_parts(), subtests)


def test_a_shift_that_takes_all_digits_away_says_so(pictures: Tensor, tmp_path: Path) -> None:
    encoder = changed_network("translation", 5e5, torch.float32, pictures, whole=True)
    (entry,) = audit(tmp_path, encoder, pictures, **quick_parts())["encoders"]
    assert entry["checks"]["collapse"]["finding"].startswith("precision: float32 puts representations")
    scores = [score for found in entry["measures"].values() for score in found["scores"].values()]
    assert {score["standing"] for score in scores} == {"void"}


@pytest.fixture(scope="module")
def whole_audit(tmp_path_factory: pytest.TempPathFactory, pictures: Tensor) -> dict:
    return audit(tmp_path_factory.mktemp("all"), network(), pictures, **all_parts())


def all_parts() -> dict[str, Any]:
    parts = {kind: registry.names(kind) for kind in ("measures", "checks")}
    return {"measures": tuple(map(measure, parts["measures"])), "checks": tuple(map(check, parts["checks"]))}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("change", "size"), CHANGED)
def test_all_numbers_are_the_same(change, size, dtype, whole_audit: dict, pictures: Tensor, tmp_path, subtests) -> None:
    compare(tmp_path, pictures, whole_audit, (change, size, dtype, False), all_parts(), subtests)
