"""Audits by Ray actors: the record is that of one process, whatever dies; and what Ray cannot do, in one line."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from sameness import same
from test_audit_run import holdfast
from test_command_line import refused
from test_engines import COMMAND, WATCHED, Heard, Writes, alive, asked, children, files, plan, whole
from torch import nn
from watched import until

from holdfast.core import Encoder
from holdfast.parts.checks.collapse import Collapse
from holdfast.parts.engines.ray import Ray
from holdfast.runtime.errors import BadValue, Conflict, NotEnough
from holdfast.runtime.listener import Silent
from json_records import run_audit

__all__ = ["asked", "whole"]  # fixtures
pytestmark = pytest.mark.timeout(900)  # seconds, where the machine is shared


@pytest.fixture
def connected() -> Iterator[None]:
    """A Ray that this process has started for itself."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.mark.slow
def test_actors_make_the_same_record_even_if_one_is_killed(tmp_path: Path, asked: Path) -> None:
    run_audit(plan(WATCHED, "zoo:digits-simclr"), tmp_path / "one")
    (asked / "stop").touch()
    writes, heard, pids = Writes(tmp_path / "two"), Heard(), []

    class Kills(Silent):
        begin = heard.begin

        def advance(self, passes: int) -> None:
            heard.advance(passes)
            writes.look()

        def stage(self, text: str) -> None:
            writes.look()
            if (asked / "begun").exists() and not pids:
                pids.append(int((asked / "begun").read_text()))
                os.kill(pids[0], signal.SIGKILL)

    record = run_audit(
        plan(WATCHED, "zoo:digits-simclr"), tmp_path / "two", engine=Ray(2, cpus=0.5, threads=1), listener=Kills()
    )
    writes.look()
    assert pids, "no actor was killed"
    assert pids[0] != os.getpid()
    assert record["run"]["engine"] == "2 Ray workers"
    assert record["run"]["workers_lost"] == 1
    assert {len(versions) for versions in writes.seen.values()} == {1}
    assert sorted(writes.seen) == files(tmp_path / "two")
    for encoder in record["encoders"]:
        assert {k: encoder["passes"][k] for k in ("forward", "backward")} == encoder["passes"]["predicted"]
    assert heard.done == heard.planned
    same(tmp_path / "one", tmp_path / "two")
    import ray

    assert not ray.is_initialized()


@pytest.mark.slow
def test_a_ray_that_is_there_is_used_and_left(tmp_path: Path, asked: Path, connected: None) -> None:
    import ray

    class OfAScript(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1).tanh()

    class Holds:  # here, for workers cannot import what tests import
        def ready(self) -> bool:
            return True

    given = {"it": Encoder(OfAScript(), mean=0, std=1)}
    one = run_audit(plan("it"), tmp_path / "one", encoders=given)
    run_audit(plan("it"), tmp_path / "two", encoders=given, engine=Ray(1))
    assert one["failures"] == []
    same(tmp_path / "one", tmp_path / "two")
    assert ray.is_initialized()
    with pytest.raises(Conflict):
        run_audit(plan("it"), tmp_path / "three", encoders=given, engine=Ray(1, address="auto"))
    with pytest.raises(NotEnough, match="3 CPUs"):
        run_audit(plan("it"), tmp_path / "three", encoders=given, engine=Ray(3))
    with pytest.raises(NotEnough, match=r"0\.5 GPUs"):
        run_audit(plan("it"), tmp_path / "three", encoders=given, engine=Ray(1, gpus=0.5))
    held = ray.remote(num_cpus=2)(Holds).remote()
    ray.get(held.ready.remote())
    with pytest.raises(NotEnough, match="0 CPUs"):
        run_audit(plan("it"), tmp_path / "three", encoders=given, engine=Ray(1, patience=2))
    ray.kill(held)
    (asked / "die").touch()  # a unit that kills each of its workers
    record = run_audit(plan(checks=(Collapse(),)), tmp_path / "four", engine=Ray(2, threads=1))
    assert record["run"]["workers_lost"] >= 3
    assert len(record["failures"]) == 1
    assert "its worker died 3 times: Worker" in record["failures"][0] or "died 3 times: The" in record["failures"][0]
    measures = record["encoders"][0]["measures"]
    assert measures["breakaway_risk"]["error"]
    assert measures["probabilistic_robustness"]["scores"]
    (asked / "die").unlink()
    (asked / "fail").touch()
    record = run_audit(plan(), tmp_path / "five", engine=Ray(1))
    assert "RuntimeError: asked to fail" in record["failures"][0]
    assert record["run"]["workers_lost"] == 0


@pytest.mark.slow
def test_ctrl_c_ends_ray_and_the_same_command_continues(tmp_path: Path, asked: Path, whole: Path) -> None:
    (asked / "stop").touch()
    folder = tmp_path / "run"
    options = ["--out", str(folder), "--engine", "ray", "--workers", "2"]
    run = holdfast(*COMMAND, *options, start_new_session=True)
    until((asked / "begun").exists)
    started = children(run.pid)
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=100)
    assert run.returncode == 130
    assert err.strip().splitlines()[-1] == "interrupted: what is done is stored; the same command continues"
    until(lambda: not any(map(alive, started)))
    assert not (folder / "record.json").exists()
    (asked / "stop").unlink()
    run = holdfast(*COMMAND, *options, "--json")
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    assert out.startswith("{")
    same(whole, folder)


# --- bad input ------------------------------------------------------------------------------------


def test_ray_that_is_missing_names_the_extra(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    line = refused(capsys, *COMMAND, "--out", str(tmp_path), "--engine", "ray", "--workers", "2")
    assert "--engine ray needs the package 'ray'; install it with: pip install -c constraints.txt '.[ray]'" in line


def test_a_cluster_that_does_not_answer_is_told(capsys, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
        line = refused(capsys, *COMMAND, "--out", str(tmp_path), "--engine", "ray", "--address", address)
        assert f"expected Ray at '{address}' to answer, got: " in line
        assert "refused" in line


def test_bad_parameters() -> None:
    for parameter, value, expected in (
        ("workers", 0, "a whole number above 0"),
        ("gpus", -1.0, "0 or more"),
        ("cpus", 0.0, "a finite number above 0"),
        ("threads", -1, "0 or more"),
        ("patience", 0.0, "a finite number above 0"),
    ):
        with pytest.raises(BadValue, match=f"^ray.{parameter}: expected {expected}, got {value}$"):
            Ray(**{parameter: value})
    assert Ray(1).title == "1 Ray worker"
