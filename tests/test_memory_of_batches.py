"""What fits into memory is found out once, counted once, and does not change what is seen."""

import gc
import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast.auditing.memory import MemoryLimits, short_of_memory
from holdfast.auditing.plan import Plan
from holdfast.auditing.shards import spans
from holdfast.core import Encoder, HoldfastError, Observation, Passes, Rng, Shard
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.failures.outranked import Outranked
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Failed, NotEnough, Unsupported
from json_records import run_audit

ERRORS = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "old cuda": RuntimeError("CUDA error: out of memory"),
    "mps": RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB, other allocations: 1.00 GB)"),
    "cpu": RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory"),
    "windows": RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 32 bytes"),
    "cublas": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "python": MemoryError(),
}


class Tight(nn.Module):
    """Runs out of memory beyond some images; more of them fit without a gradient."""

    def __init__(self, most: int, with_gradient: int, error: Exception):
        super().__init__()
        self.most, self.with_gradient, self.error = most, with_gradient, error
        self.tried: list[tuple[int, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        search = x.requires_grad and torch.is_grad_enabled()
        self.tried.append((len(x), search))
        if len(x) > (self.with_gradient if search else self.most):
            raise self.error
        return x.flatten(1) * torch.linspace(0.5, 1.5, x[0].numel())


def audit(folder: Path, net: nn.Module, **more):
    measures = (UniversalQuantile(attack=Pgd(3), ball=Linf(0.1)), BreakawayRisk(attack=Pgd(2), ball=Linf(0.1)))
    plan = Plan(("it",), "digits", measures, images=32, attacked=24, batch_size=8, **more)
    return run_audit(plan, folder, encoders={"it": Encoder(net, mean=0.1, std=1)})


@pytest.fixture(scope="module", autouse=True)
def _only_garbage_of_these_tests() -> None:
    """Let the many collections here look at nothing that was there before."""
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize(
    "error",
    [pytest.param(error, id=name, marks=[pytest.mark.slow] * (name != "cpu")) for name, error in ERRORS.items()],
)
def test_what_fits_is_remembered(error: Exception, tmp_path: Path) -> None:
    net, roomy = Tight(5, 2, error), Tight(100, 100, error)
    record, wanted = audit(tmp_path / "tight", net), audit(tmp_path / "roomy", roomy)
    (entry,), (other,) = record["encoders"], wanted["encoders"]
    assert record["failures"] == []
    assert {k: entry["passes"][k] for k in ("forward", "backward", "bounds")} == entry["passes"]["predicted"]
    assert entry["passes"] == other["passes"]
    for name, measure in other["measures"].items():
        for score, value in measure["scores"].items():
            assert entry["measures"][name]["scores"][score]["value"] == pytest.approx(value["value"], rel=1e-5)
    failed = [(count, search) for count, search in net.tried if count > (2 if search else 5)]
    assert failed.count((8, False)) == 1  # clean images: once, not at each of four shards
    assert failed.count((8, True)) == failed.count((4, True)) == 1  # and the attacks of both measures are of one kind
    assert len(failed) == 3
    assert len(list((tmp_path / "tight" / "cache").rglob("*.safetensors"))) == len(
        list((tmp_path / "roomy" / "cache").rglob("*.safetensors"))
    )  # shards, by which an audit resumes, are as large as before


class Leaving(Tight):
    """Leaves what failed in a cycle of references, which only the collector of garbage ends."""

    def __init__(self):
        super().__init__(2, 2, ERRORS["cuda"])
        self.failed: list[weakref.ref[Tensor]] = []
        self.failures = self.alive = 0

    def forward(self, x: Tensor) -> Tensor:
        self.alive += sum(left() is not None for left in self.failed)
        self.failed = []
        if len(x) > self.most:
            batch = x.clone()
            cycle: list[object] = [batch]
            cycle.append(cycle)
            self.failed = [weakref.ref(batch)]
            self.failures += 1
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().forward(x)


def test_nothing_of_what_failed_is_alive_when_fewer_images_are_tried(tmp_path: Path) -> None:
    net = Leaving()
    gc.disable()  # it would run at some time of its own
    try:
        record = audit(tmp_path, net)
    finally:
        gc.enable()
    assert record["failures"] == []
    assert net.failures == 4  # of 8 and of 4 images, clean and attacked
    assert net.alive == 0


class Counting:
    """Observes by an encoder that has limits for so many images."""

    def __init__(self, most: int, error: Exception = ERRORS["cpu"]):
        self.encoder = Encoder(nn.Flatten(), mean=0, std=1)
        self.encoder.watch = lambda work: self.told.append(work)
        self.most, self.error = most, error
        self.spans: list[tuple[int, int]] = []
        self.told: list[int] = []

    def __call__(self, start: int, stop: int) -> dict[str, Tensor]:
        self.spans.append((start, stop))
        with torch.no_grad():
            self.encoder(torch.zeros(1, 1, 2, 2))  # something was done before it failed
        if stop - start > self.most:
            raise self.error
        return {"place": torch.arange(start, stop)}


def test_parts_come_in_order_and_only_success_is_counted() -> None:
    run = Counting(3)
    limits = MemoryLimits(run.encoder)
    for start, stop in ((0, 10), (10, 17)):
        assert torch.equal(limits.run(Clean(), start, stop, run)["place"], torch.arange(start, stop))
    assert run.spans == [
        (0, 10),
        (0, 5),
        (0, 2),
        (2, 4),
        (4, 6),
        (6, 8),
        (8, 10),
        (10, 12),
        (12, 14),
        (14, 16),
        (16, 17),
    ]
    assert run.encoder.passes == Passes(forward=9)
    assert sum(run.told) == 9  # bars went back by what failed
    assert limits.limit(Clean()) == 2
    assert limits.limit(Attacked()) is None


def test_memory_that_is_gone_later_is_met_as_well() -> None:
    run = Counting(8)
    limits = MemoryLimits(run.encoder)
    assert len(limits.run(Clean(), 0, 8, run)["place"]) == 8
    run.most = 2
    assert torch.equal(limits.run(Clean(), 8, 15, run)["place"], torch.arange(8, 15))
    assert limits.limit(Clean()) == 1


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_a_single_image_that_does_not_fit(error: Exception) -> None:
    run = Counting(0, error)
    with pytest.raises(NotEnough, match="clean") as caught:
        MemoryLimits(run.encoder).run(Clean(), 0, 8, run)
    assert "\n" not in str(caught.value)


def test_what_needs_all_images_at_once_is_not_cut() -> None:
    run = Counting(3)
    observation: Observation = WorstNoise()
    with pytest.raises(NotEnough, match="worst_noise"):
        MemoryLimits(run.encoder).run(observation, 0, 8, run)
    assert run.spans == [(0, 8)]


def test_a_device_without_float64_is_named() -> None:
    """The sentence is torch's own; there is no such device here."""
    said = (
        "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32."
    )
    run = Counting(0, TypeError(said))
    with pytest.raises(Unsupported, match="clean"):
        MemoryLimits(run.encoder).run(Clean(), 0, 8, run)
    run.error = TypeError("forward() takes 2 positional arguments")
    with pytest.raises(TypeError, match="positional"):
        MemoryLimits(run.encoder).run(Clean(), 0, 8, run)


def test_other_errors_are_not_taken_for_it() -> None:
    for error in (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), HoldfastError("no labels"), ValueError()):
        assert not short_of_memory(error)
        run = Counting(0, error)
        with pytest.raises(type(error)):
            MemoryLimits(run.encoder).run(Clean(), 0, 8, run)
        assert run.spans == [(0, 8)]


def test_an_error_that_was_turned_into_a_sentence_is_still_known() -> None:
    """`clean` names what an encoder fails on; memory that is short is no fault of the encoder."""
    encoder = Encoder(Tight(4, 4, ERRORS["mps"]), mean=0, std=1)
    x = torch.zeros(8, 1, 2, 2)
    shard = Shard(encoder, x, torch.arange(8), Rng(0, ids=tuple("abcdefgh")), None)
    with pytest.raises(Failed) as caught:
        Clean().run(shard)
    assert short_of_memory(caught.value)


def test_searches_against_a_large_population_take_few_images_at_once() -> None:
    """A step holds each image against all others; what only moves images away takes whole batches."""
    for population, most in ((10_000, 512), (120_000, 69), (1_000_000, 8)):
        sizes = [stop - start for start, stop in spans(BreakingRadii(), 2000, population, 512, (1, 8, 8))]
        assert max(sizes) == most
        assert sum(sizes) == 2000
        outranked = Broken(Pgd(3), Linf(0.1), Outranked())
        assert max(stop - start for start, stop in spans(outranked, 2000, population, 512, (1, 8, 8))) == most
        assert spans(Attacked(), 2000, population, 512, (1, 8, 8))[0] == (0, 512)
