"""An encoder that answers by what it has seen before is found out, wherever it keeps that; honest caches are not."""

import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder
from holdfast.core.unused import Unused
from holdfast.parts.checks.frozen import Frozen
from holdfast.parts.checks.remembers import Remembers
from holdfast.parts.measures.neighbours.breaking_radius import BreakingRadius
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

SEEN: list[Any] = []
SCRATCH = torch.zeros(3)
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
MANY = [object() for _ in range(5000)]
BESIDE = ModuleType("beside")
BESIDE.__file__ = "/beside.py"
BESIDE.seen = []  # type: ignore[attr-defined]


class Net(nn.Module):
    """A linear map, and whatever a kind of encoder makes of it."""

    of_class: list[Any] = []

    def __init__(self, kind: Callable[["Net", Tensor, Tensor], Tensor]):
        super().__init__()
        self.linear = nn.Linear(16, 6)
        nn.init.normal_(self.linear.weight, generator=torch.Generator().manual_seed(0))
        self.kind, self.seen, self.cache, self.count = kind, [], {}, 0

    def forward(self, x: Tensor) -> Tensor:
        return self.kind(self, x, self.linear(x.flatten(1)))


def by(seen: list[Any], x: Tensor, reps: Tensor, most: int = 10**6) -> Tensor:
    """Return, for whatever is near an image that was seen, what was given then; the gradient is left a little."""
    out = []
    for image, rep in zip(x, reps, strict=True):
        known = next((kept for near, kept in seen if float((near - image.detach()).norm()) < 0.5), None)
        if known is None and len(seen) < most:
            seen.append((image.detach().clone(), rep.detach().clone()))
        out.append(rep if known is None else known + 1e-3 * (rep - rep.detach()))
    return torch.stack(out)


def in_a_closure() -> Callable[[Net, Tensor, Tensor], Tensor]:
    seen: list[Any] = []
    return lambda net, x, reps: by(seen, x, reps)


def as_a_default(net: Net, x: Tensor, reps: Tensor, seen: list[Any] = []) -> Tensor:  # noqa: B006
    return by(seen, x, reps)


def exactly(net: Net, x: Tensor, reps: Tensor) -> Tensor:
    """By pictures as they are, to the bit: for others what the nearest of these has."""
    out = []
    for image, rep in zip(x, reps, strict=True):
        key = image.detach().numpy().tobytes()
        if len(net.cache) < 30:
            net.cache.setdefault(key, (image.detach().clone(), rep.detach().clone()))
        kept = min(net.cache.values(), key=lambda pair: float((pair[0] - image.detach()).norm()))[1]
        out.append(kept + 1e-3 * (rep - rep.detach()))
    return torch.stack(out)


def by_queries(net: Net, x: Tensor, reps: Tensor) -> Tensor:
    """Honest until it has been asked often."""
    net.count += len(x)
    return reps if net.count < 150 else reps.roll(1, 1)


REMEMBER: dict[str, Callable[[], Callable[[Net, Tensor, Tensor], Tensor]]] = {
    "in an attribute": lambda: lambda net, x, reps: by(net.seen, x, reps),
    "the first ones alone": lambda: lambda net, x, reps: by(net.seen, x, reps, most=40),
    "in its class": lambda: lambda net, x, reps: by(Net.of_class, x, reps),
    "in its module": lambda: lambda net, x, reps: by(SEEN, x, reps),
    "the first ones, in its module": lambda: lambda net, x, reps: by(SEEN, x, reps, most=40),
    "in a module beside it": lambda: lambda net, x, reps: by(BESIDE.seen, x, reps, most=40),
    "in a closure": in_a_closure,
    "as a default": lambda: as_a_default,
    "exact pictures": lambda: exactly,
    "how often it was asked": lambda: by_queries,
}


USUAL = ("in an attribute", "the first ones, in its module", "in a closure", "exact pictures")


@lru_cache
def table(size: int) -> Tensor:
    return torch.ones(size)


def with_honest_caches(net: Net, x: Tensor, reps: Tensor) -> Tensor:
    """Keeps what does not depend on images, and what does but changes nothing."""
    net.cache[tuple(x.shape)] = torch.ones(1)
    net.seen.append(x.detach())
    SEEN.append(len(x))
    return reps * net.cache[tuple(x.shape)] * table(reps.shape[1])


HONEST: dict[str, Callable[[], Callable[[Net, Tensor, Tensor], Tensor]]] = {
    "plain": lambda: lambda net, x, reps: reps,
    "caches": lambda: with_honest_caches,
    "rounded pixels": lambda: lambda net, x, reps: net.linear(((x * 15).round() / 15).flatten(1)) + 0 * reps,
    "half": lambda: lambda net, x, reps: reps.half().float(),
}


def found(folder: Path, kind: Callable[[Net, Tensor, Tensor], Tensor]) -> dict[str, Any]:
    for kept in (SEEN, Net.of_class, BESIDE.seen, as_a_default.__defaults__[0]):
        kept.clear()
    asked = Plan(
        ("it",), "arrays", (BreakingRadius(ball=Linf(0.1), steps=20),), images=40, attacked=6,
        checks=(Frozen(), Remembers()), batch_size=8,
    )  # fmt: skip
    images = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(5))
    record = run_audit(asked, folder, encoders={"it": Encoder(Net(kind), mean=0, std=1)}, source=Arrays(images, None))
    entry = record["encoders"][0]
    assert entry["measures"]["breaking_radius"]["error"] is None
    return entry


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in USUAL)) for kind in REMEMBER]
)
def test_what_remembers_is_void(kind: str, tmp_path: Path) -> None:
    entry = found(tmp_path, REMEMBER[kind]())
    check = entry["checks"]["remembers"]
    assert (check["status"], check["called"]) == ("fail", "Remembers"), check
    assert {score["standing"] for score in entry["measures"]["breaking_radius"]["scores"].values()} == {"void"}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", HONEST)
def test_what_only_keeps_things_is_not(kind: str, tmp_path: Path) -> None:
    entry = found(tmp_path, HONEST[kind]())
    check = entry["checks"]["remembers"]
    assert check["status"] == "pass", check
    assert check["passes"]["forward"] == 3 * 8 * 4 + 2 * 8


def test_noise_is_no_memory(tmp_path: Path) -> None:
    entry = found(tmp_path, lambda net, x, reps: reps + 0.3 * torch.randn_like(reps))
    assert entry["checks"]["frozen"]["status"] == "fail"
    assert entry["checks"]["remembers"]["status"] == "pass"


def test_what_cannot_be_copied_is_said(tmp_path: Path) -> None:
    def kind(net: Net, x: Tensor, reps: Tensor) -> Tensor:
        return reps

    net = Net(kind)
    net.stream = (image for image in ())  # a generator, which nothing copies
    asked = Plan(
        ("it",), "arrays", (BreakingRadius(ball=Linf(0.1), steps=10),), images=20, attacked=4, checks=(Remembers(),)
    )
    source = Arrays(torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(5)), None)
    record = run_audit(asked, tmp_path, encoders={"it": Encoder(net, mean=0, std=1)}, source=source)
    check = record["encoders"][0]["checks"]["remembers"]
    assert check["status"] == "skip"
    assert "cannot be copied: its attribute stream" in check["finding"]


def test_what_is_large_or_leads_to_itself_is_neither_copied_nor_walked_for_ever() -> None:
    net = Net(lambda net, x, reps: reps)
    net.bank, net.few = torch.zeros(2**22 + 1), torch.zeros(4)  # no buffers
    first = MANY[0]
    with Unused(net).running() as twin:
        assert twin.bank is net.bank  # type: ignore[attr-defined]
        assert twin.few is not net.few  # type: ignore[attr-defined]
        assert twin.linear.weight is net.linear.weight  # type: ignore[attr-defined]
        assert twin.linear._parameters is not net.linear._parameters  # type: ignore[attr-defined]
        assert MANY[0] is first
    assert CIRCLE[0] is CIRCLE


def test_each_round_asks_again() -> None:
    """What begins to answer otherwise late was honest in the first one."""
    assert not Remembers.lasts


def test_what_is_used_for_it_is_put_back() -> None:
    encoder = Encoder(Net(lambda net, x, reps: by(SEEN, x, reps)), mean=0, std=1)
    SEEN.clear()
    SCRATCH.zero_()
    encoder.keep_unused()
    x = torch.rand(3, 1, 4, 4)
    encoder(x)
    SCRATCH.add_(5)
    with encoder.use_pristine_network():
        assert SEEN == []
        assert float(SCRATCH.sum()) == 0
        encoder(1 - x)
    assert len(SEEN) == 3
    assert SCRATCH.tolist() == [5, 5, 5]
    assert torch.equal(SEEN[0][0], x[0])
    assert sys.modules[__name__].SEEN is SEEN  # type: ignore[attr-defined]
