"""Compiled encoders: the same representations and gradients, one compilation for all sizes, errors that say so."""

import copy
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.artifacts.grad_cam import attention
from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Images, Margin, Passes
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Unsupported
from json_records import run_audit

if shutil.which(os.environ.get("CXX", "g++")) is None and shutil.which("clang++") is None:
    pytest.skip("torch.compile needs a C++ compiler on a CPU; none is installed", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.Flatten(), nn.Linear(36, 5)
    )  # fmt: skip


def encoder(compiled: bool, net: nn.Module | None = None) -> Encoder:
    return Encoder(net or network(), mean=0.4, std=0.3).prepare(compiled=compiled)


def images(count: int = 6) -> Images:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(count))


def both(f: Encoder, x: Images) -> tuple[Tensor, Tensor, Tensor]:
    """Representations without and with a gradient, and the gradient."""
    with torch.no_grad():
        plain = f(x)
    at = x.clone().requires_grad_()
    reps = f(at)
    return plain, reps.detach(), torch.autograd.grad(reps.square().sum(), at)[0]


def graphs() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.slow
def test_same_numbers_and_one_compilation_for_all_batch_sizes() -> None:
    eager, fast = encoder(False), encoder(True)
    for count in (6, 3, 4, 5, 2, 9):
        for mine, wanted in zip(both(fast, images(count)), both(eager, images(count)), strict=True):
            torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)
    assert graphs() == 2  # with and without a gradient
    both(fast, images(1))
    assert graphs() <= 4  # a single image is compiled for itself
    assert fast.passes == eager.passes + Passes(forward=2, backward=1)


@pytest.mark.slow
def test_weights_names_and_fingerprint_stay() -> None:
    eager, fast = encoder(False), encoder(True)
    both(fast, images())
    assert list(fast.state_dict()) == list(eager.state_dict())
    assert fast.take_fingerprint() == eager.take_fingerprint()
    assert not any("_orig_mod" in name for name, _ in fast.named_modules())


@pytest.mark.slow
def test_copies_have_their_own_network() -> None:
    fast = encoder(True)
    with torch.no_grad():
        wanted = fast(images())
    for made in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert made.compiled
        with torch.no_grad():
            for weight in made.parameters():
                weight.zero_()
            assert not made(images()).any()
            assert torch.equal(fast(images()), wanted)


@pytest.mark.slow
def test_more_encoders_than_the_cache_of_one_function_holds() -> None:
    """torch runs the ninth network of one function without compiling it, and says nothing (or fails)."""
    limit = torch._dynamo.config.recompile_limit
    for seed in range(limit + 2):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2 + seed))
        fast = encoder(True, net)
        with torch.no_grad():
            torch.testing.assert_close(fast(images()), encoder(False, net)(images()))
        assert graphs() == seed + 1


def test_certificates_and_maps_read_the_network_itself() -> None:
    eager, fast, x = encoder(False), encoder(True), images(2)
    margin = Margin(torch.ones(2, 1, 5), torch.zeros(2, 1))
    bounds = [Crown()(f, margin, x, Linf(0.05)).lower for f in (eager, fast)]
    assert torch.equal(*bounds)
    maps = [attention(f, x, torch.ones(2, 5)).maps for f in (eager, fast)]
    torch.testing.assert_close(*maps)
    assert graphs() == 0
    assert fast.compiled


class Loose(nn.Module):
    """What no single graph holds: Python decides by the values."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) if float(x.sum()) > 0 else x.flatten(1) * 2


def test_what_cannot_be_compiled_is_refused() -> None:
    fast = encoder(True, Loose())
    with (
        pytest.raises(Unsupported, match="--compiled") as caught,
        torch.no_grad(),
    ):
        fast(images())
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_missing_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.delenv("CXX", raising=False)
    with (
        config.patch({"cpp.cxx": ("there-is-no-such-compiler",), "force_disable_caches": True}),
        torch.no_grad(),
        pytest.raises(Unsupported, match="--compiled"),
    ):
        encoder(True)(images())


def test_errors_of_memory_are_left_as_they_are() -> None:
    from holdfast.core.compiled import compiling

    with pytest.raises(torch.OutOfMemoryError, match="too much"), compiling("it"):
        raise torch.OutOfMemoryError("too much")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16"])
def test_compiled_in_reduced_precision(precision: str) -> None:
    net = network()
    eager, fast = encoder(False, net).prepare(precision=precision), encoder(True, net).prepare(
        precision=precision, compiled=True
    )  # fmt: skip
    mine, wanted = both(fast, images()), both(eager, images())
    torch.testing.assert_close(mine[0], wanted[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine[1], wanted[1], rtol=2e-2, atol=2e-2)
    assert float((mine[2] - wanted[2]).norm() / wanted[2].norm()) < 0.1
    assert not torch.equal(mine[1], mine[0])


@pytest.mark.slow
def test_an_audit_says_that_it_was_compiled(tmp_path: Path) -> None:
    measures = (UniversalQuantile(attack=Pgd(3), ball=Linf(0.1)),)
    records = []
    for compiled in (False, True):
        plan = Plan(("it",), "digits", measures, images=10, attacked=8, batch_size=4, compiled=compiled)
        records.append(
            run_audit(plan, tmp_path / str(compiled), encoders={"it": Encoder(network(), mean=0.4, std=0.3)})
        )
        assert records[-1]["failures"] == []
        assert records[-1]["plan"]["compiled"] is compiled
    (eager,), (fast,) = (record["encoders"] for record in records)
    (name,) = eager["measures"]
    for score, value in eager["measures"][name]["scores"].items():
        assert fast["measures"][name]["scores"][score]["value"] == pytest.approx(value["value"], rel=1e-3)
    assert fast["passes"] == eager["passes"]
