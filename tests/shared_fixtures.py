"""What all tests share, where they are run: fixtures, and shapes that are enforced. See `conftest.py`."""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.testing
from jaxtyping import install_import_hook
from torch import nn

import typechecker

install_import_hook(typechecker.list_modules(find_spec("holdfast")), "typechecker.check")  # before they are imported


import registered  # noqa: E402
from holdfast.auditing import plan_file  # noqa: E402
from holdfast.core import Encoder  # noqa: E402
from holdfast.parts.attacks.apgd import Apgd  # noqa: E402
from holdfast.parts.checks.stronger_attack import StrongerAttack  # noqa: E402
from holdfast.sources.data.shared import image_set  # noqa: E402
from report_fixture import draw_charts_once, no_charts  # noqa: E402

torch.set_num_threads(1)  # the networks are tiny, and the suite runs in parallel processes

AS_USERS_RUN = {"test_audit_run", "test_golden", "test_s3", "test_plan", "test_profiles"}
"""Modules whose audits are compared with audits of other processes, or with golden records; that are about plans."""

IN_ROUNDS = {"test_rounds", "test_view"}
"""Modules whose tests are about rounds."""

QUERIES, STRONGER = 20, Apgd(10)
"""Of the gradient-free attack among the checks, at most; the one that others are compared with. They are most of a
small audit's passes."""


def pytest_collection_finish() -> None:
    """Collect garbage of the tests alone: what was imported stays, and need not be walked again and again."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # tests make many objects and few cycles
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Enforce shapes at every function's first calls in each contract, and everywhere in the slow suite."""
    typechecker.new_test(item.path.parent.name == "contracts" or bool(os.environ.get("HOLDFAST_SHAPES")))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real images and encoders, where there is one."""
    folder = Path(os.environ.get("HOLDFAST_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}; set HOLDFAST_SHARED")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    """Make once in all tests what takes long and comes out the same: charts, the tree of commands, copies of images."""
    with pytest.MonkeyPatch.context() as patch:
        draw_charts_once(patch)
        commands = cache(typer.main.get_command)
        patch.setattr(typer.main, "get_command", commands)
        patch.setattr(typer.testing, "_get_command", commands)
        patch.setattr(image_set, "copies", _remembered(image_set.copies))
        yield


def _remembered(find: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a search for copies among images that remembers what it has found among the same ones."""
    found: dict[tuple[object, ...], torch.Tensor] = {}

    def remembered(images: torch.Tensor, steps: tuple[float, ...]) -> torch.Tensor:
        key = images.shape, images.numpy().tobytes(), steps
        if key not in found:
            found[key] = find(images, steps)
        return found[key].clone()

    return remembered


@pytest.fixture(autouse=True, scope="module")
def in_one_go(request: pytest.FixtureRequest) -> Iterator[None]:
    """Audit in a single round where nobody asks for a budget: how many rounds fit into one is up to the machine."""
    budget = plan_file._budget
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ not in AS_USERS_RUN | IN_ROUNDS:
            patch.setattr(plan_file, "_budget", lambda time, usual: budget(time, None))
        yield


@pytest.fixture(autouse=True, scope="module")
def small_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Plan small attacks for the checks of searches: what these find has tests of its own."""
    panel = plan_file.validity_panel

    def small(measures: Any, examined: int, queries: int, *rest: Any) -> Any:
        checks = panel(measures, examined, min(queries, QUERIES), *rest)
        # One that follows no gradient stays so
        return tuple(
            replace(one, stronger=STRONGER) if isinstance(one, StrongerAttack) and one.stronger.passes.backward else one
            for one in checks
        )

    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ not in AS_USERS_RUN:
            patch.setattr(plan_file, "validity_panel", small)
        yield


@pytest.fixture
def undrawn() -> Iterator[None]:
    """Leave the charts of reports empty."""
    with no_charts():
        yield


@pytest.fixture
def own_parts_forgotten() -> Iterator[None]:
    """Forget afterwards what a test registers."""
    yield
    registered.forget()


@pytest.fixture(scope="session")
def small_network() -> Callable[[], Encoder]:
    """Makes small random ReLU networks for 1x8x8 images, all equal."""
    return _small_network


@pytest.fixture
def tiny() -> Encoder:
    """A small random ReLU network for 1x8x8 images."""
    return _small_network()


def _small_network() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 12))
    return Encoder(net, mean=0.5, std=0.5, name="tiny")


@pytest.fixture
def edges() -> torch.Tensor:
    """Eight 1x8x8 images, several of them on the edges of the pixel box."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(8, 1, 8, 8, generator=generator)
    x[0], x[1] = 0, 1
    x[2] = (x[2] > 0.5).float()
    return x
