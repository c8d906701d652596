"""Bound propagations that last: what the bar and the words say while they do."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.auditing.bound_progress import BoundProgress
from holdfast.auditing.shards import images_in
from holdfast.core.encoder import BOUND
from holdfast.numerics.bounds.effort import Standing, _listener
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.clean import Clean


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.work, self.stages = list[int](), list[str]()

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        """Nobody begins here."""

    def advance(self, passes: int) -> None:
        self.work.append(passes)

    def stage(self, text: str) -> None:
        self.stages.append(text)


def tell(standing: Standing) -> None:
    listener = _listener.get()
    assert listener is not None
    listener(standing)


def test_a_propagation_that_lasts_moves_the_bar_and_says_how_long_the_rest_takes() -> None:
    heard, ticks = Heard(), iter([0.0, 1.0, 30.0, 60.0, 90.0])
    progress = BoundProgress(heard, lambda: next(ticks))
    with progress.telling("margins"):
        for done, total in ((0, 0), (0, 100), (25, 100), (50, 100), (100, 100)):
            tell(Standing(done, total, 4))
        assert sum(heard.work) == 4 * BOUND
        progress.advance(4 * BOUND)  # counted when it is done: known already
        assert sum(heard.work) == 4 * BOUND
    assert sum(heard.work) == 4 * BOUND
    assert heard.stages == [
        "margins: 0% of the bounds inside, about 2 min left",
        "margins: 25% of the bounds inside, about 90 s left".replace("90 s", "2 min"),
        "margins: 50% of the bounds inside, about 60 s left",
        "margins: 100% of the bounds inside, about 0 s left",
    ]


def test_one_image_after_the_other_adds_up_and_what_never_ended_is_taken_back() -> None:
    heard = Heard()
    progress = BoundProgress(heard, lambda: 0.0)
    with progress.telling("margins"):
        for _ in range(2):
            for done, total in ((0, 0), (0, 10), (10, 10)):
                tell(Standing(done, total, 1))
        assert sum(heard.work) == 2 * BOUND
        progress.advance(2 * BOUND + 7)  # and passes of another kind
        assert sum(heard.work) == 2 * BOUND + 7
        tell(Standing(0, 0, 1))
        tell(Standing(5, 10, 1))
        assert sum(heard.work) == 2 * BOUND + 7 + BOUND // 2
    assert sum(heard.work) == 2 * BOUND + 7
    assert heard.stages == []  # none of it lasted


@pytest.mark.parametrize(
    ("shape", "count"), [((1, 8, 8), 64), ((1, 28, 28), 41), ((3, 32, 32), 10), ((3, 224, 224), 1)]
)
def test_the_larger_the_images_the_fewer_are_proved_before_they_are_stored(shape: tuple[int, ...], count: int) -> None:
    assert images_in(Certified(), 64, shape) == count
    assert images_in(Clean(), 64, shape) == 64


SLOW = """
import time
import holdfast.auditing.shards as shards
import holdfast.numerics.bounds.ranges as inside
shards.PROVED = 64
real = inside.crown_box
def slow(*given):
    time.sleep(0.4)
    return real(*given)
inside.crown_box = slow
from holdfast.cli import main
main()
"""
"""The command line, where bounds are slow, and each image is a shard."""


@pytest.mark.slow
def test_an_interrupt_among_proofs_is_one_line_and_loses_no_image_that_was_proved(tmp_path: Path) -> None:
    measure = "instance_accuracy[certifier=crown,negatives=2]"
    command = [
        "audit",
        "zoo:digits-simclr",
        "--data",
        "digits",
        "--measure",
        measure,
        "--images",
        "20",
        "--attacked",
        "12",
    ]
    run = [sys.executable, "-c", SLOW, *command, "--out", "out"]
    process = subprocess.Popen(run, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 120
    while (
        len(list(tmp_path.glob("out/cache/*/*.safetensors"))) < 6 and process.poll() is None and time.monotonic() < end
    ):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip().splitlines()[-1].startswith("interrupted: what is done is stored")
    assert "Traceback" not in said
    assert len(list(tmp_path.glob("out/cache/*/*.safetensors"))) >= 6
