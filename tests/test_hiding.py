"""Encoders that hide from the search: the catalogue, what is true of each, and what counts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.hiding import __main__ as command
from benchmarks.hiding import inputs, store, verdict
from benchmarks.hiding.audit import ACCURACY, RADIUS, Audit, Number
from benchmarks.hiding.catalogue import entries
from benchmarks.hiding.entry import LYING, RANDOM, Entry
from benchmarks.hiding.family import FAMILIES
from benchmarks.hiding.masks import Mask, surrogates
from benchmarks.hiding.truth import Problem, attack_in_balls, smallest_changes
from benchmarks.hiding.verdict import Truth
from torch import nn

from holdfast.parts.attacks.pgd import Pgd

DIGITS = FAMILIES["digits"]
ENTRIES = list(entries(DIGITS))
EPS = DIGITS.eps


def names(entry: Entry) -> str:
    return f"{entry.kind}: {entry.name}"


def test_the_catalogue_is_large_and_names_nothing_twice() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert sum(entry.hides for entry in ENTRIES) >= 70
    assert sum(not entry.hides for entry in ENTRIES) >= 25


@pytest.mark.parametrize("entry", ENTRIES, ids=names)
def test_surrogates_have_the_same_values(entry: Entry) -> None:
    network = entry.make(DIGITS).eval()
    x = DIGITS.population[:4] + 0.03
    for honest in surrogates(network):
        torch.manual_seed(1)
        with torch.no_grad():
            value = network(x)
        torch.manual_seed(1)
        at = x.clone().requires_grad_()
        shared = honest.eval()(at)
        assert torch.equal(shared, value) or entry.name.startswith("all within")
        assert value.isfinite().all()
        (gradient,) = torch.autograd.grad(shared.double().sum(), at)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.kind == LYING], ids=names)
def test_gradients_that_lie_differ_from_honest_ones(entry: Entry) -> None:
    def gradient(network: nn.Module) -> torch.Tensor:
        x = (DIGITS.population[:4] * 0.9 + 0.05).requires_grad_()
        return torch.autograd.grad(network(x).square().sum(), x)[0]

    network = entry.make(DIGITS).eval()
    (honest,) = surrogates(network)
    assert torch.allclose(gradient(honest), gradient(DIGITS.network()), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(gradient(network), gradient(honest), rtol=1e-2)


def said(low: float, standing: str = "sound", name: str = RADIUS) -> Audit:
    plain = Number(0.5, 0.0, 1.0, "sound")
    return Audit({RADIUS: plain, ACCURACY: plain, name: Number(low + 0.1, low, low + 0.2, standing, ("masking",))})


TRUTH = Truth((0.02,) * 20 + (0.3,) * 20)


@pytest.mark.parametrize(
    ("audit", "hides", "expected"),
    [
        (said(0.17), True, verdict.FLATTERS),  # the median is .16
        (said(0.15), True, verdict.TRUE),
        (said(0.17, "at most"), True, verdict.TRUE),  # the other number is plain and true
        (said(0.54, name=ACCURACY), True, verdict.FLATTERS),  # half of the images hold
        (said(0.51, name=ACCURACY), True, verdict.TRUE),  # by less than an image
        (said(0.54, "void", ACCURACY), True, verdict.TRUE),
        (
            Audit({name: Number(1.0, 0.9, 1.0, "at most", ("masking",)) for name in (RADIUS, ACCURACY)}),
            True,
            verdict.BOUND,
        ),
        (Audit({name: Number(1.0, 0.9, 1.0, "void", ("frozen",)) for name in (RADIUS, ACCURACY)}), True, verdict.VOID),
        (Audit({}, errors=("no gradient",)), True, verdict.NONE),
        (Audit({}, errors=("no gradient",)), False, verdict.ALARM),
        (said(0.15, "at most"), False, verdict.ALARM),
        (Audit({RADIUS: Number(0.1, 0.05, 0.2, "sound")}, warned=("enough_images",)), False, verdict.PLAIN),
    ],
)
def test_what_counts(audit: Audit, hides: bool, expected: str) -> None:
    assert verdict.verdict(audit, TRUTH, EPS, hides) == expected


def test_a_plain_number_without_a_truth_is_not_called_true() -> None:
    assert verdict.verdict(said(0.1), None, EPS, hides=True) == verdict.UNKNOWN


@pytest.mark.slow
def test_the_attack_that_knows_beats_plain_pgd() -> None:
    family = replace(DIGITS, pursuit=40, rounds=4, climbs=0, steps=30)
    network = nn.Sequential(inputs.saturated(200), family.network()).eval()
    plain = Problem(network, family)
    plain.radius.fill_(torch.inf)
    attack_in_balls(plain, network, Pgd(60))
    plain.retreat()
    knowing = smallest_changes(network, family)
    assert (
        Truth(tuple(knowing.radius.tolist())).accuracy(EPS) <= Truth(tuple(plain.radius.tolist())).accuracy(EPS) - 0.1
    )


def test_what_the_attack_says_is_so() -> None:
    family = replace(DIGITS, pursuit=40, rounds=2, climbs=1, climbing=10, steps=10)
    found = smallest_changes(nn.Sequential(inputs.quantised(4), family.network()).eval(), family)
    x, network = family.population, nn.Sequential(inputs.quantised(4), family.network())
    with torch.no_grad():
        clean, reps = network(x).double(), network(found.best).double()
    apart = torch.cdist(reps, clean)
    own = apart[torch.arange(len(reps)), torch.arange(len(reps))]
    assert (apart.amin(1) < own).all()
    assert torch.allclose((found.best - x[: len(reps)]).abs().flatten(1).amax(1).double(), found.radius)


@pytest.mark.slow
def test_what_is_measured_is_kept_and_not_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured() -> store.Measured:
        return store.Measured(tmp_path / "measured.json")

    entry = next(entry for entry in ENTRIES if entry.kind == RANDOM)
    family = replace(DIGITS, images=20, attacked=8)
    first = command.measure(entry, family, measured())
    assert first.verdict == verdict.VOID
    assert first.truth is None
    monkeypatch.setattr(command, "audit", None)
    again = command.measure(entry, family, measured())
    assert again.audit is not None
    assert again.audit.failed == (first.audit.failed if first.audit else None)
    assert "kept" in capsys.readouterr().out
    kept = measured()
    kept.keep_truth("digits", "one", Truth((0.2, 0.1)))
    kept.keep_truth("digits", "one", Truth((0.1, 0.3)))
    assert measured().truth("digits", "one") == Truth((0.1, 0.1))
    assert json.loads((tmp_path / "measured.json").read_text())["audits"].keys() == {f"digits: {entry.name}"}


def test_the_table_counts_by_kind_and_names_exceptions() -> None:
    rows = [
        store.Row("digits", "saturating input", "a", TRUTH, said(0.17)),
        store.Row("digits", "saturating input", "b", TRUTH, said(0.1)),
        store.Row("digits", "honest", "c", TRUTH, replace(said(0.1, "at most"), failed=("masking[radius=0.1]",))),
    ]
    table = store.summary(rows)
    assert "| saturating input | 2 | 1 | 0 | 1 |  |" in table
    assert "| **honest** | **1** | **0** |  | **0** | **1** |" in table
    named = store.exceptions(rows)
    assert "saturating input: a" in named
    assert "honest: c" in named
    assert "input: b" not in named
    assert "| masking | false alarm |" in named


def test_one_rounding_mask_is_honest_only_as_a_surrogate() -> None:
    step = Mask(torch.round, lambda x: -x)
    x = torch.tensor([0.7], requires_grad=True)
    step(x).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == -1
