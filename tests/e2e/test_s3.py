"""Run folders in an object store: audits, parts, workers, resumption and reports, as on a disk."""

import math
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry as file_systems
from sameness import same
from test_audit_run import holdfast
from test_command_line import refused
from test_command_line import run as command_line
from test_engines import COMMAND, WATCHED, asked, parts, plan, whole
from turns import Turns

from holdfast.parts.engines.processes import Processes
from holdfast.runtime.errors import BadPlace, Missing
from holdfast.runtime.exit_status import ExitStatus
from holdfast.storage.filesystem import Folder
from json_records import merge_parts, run_audit

__all__ = ["asked", "whole"]  # fixtures

QUIET = [
    "ignore:datetime.datetime.utc:DeprecationWarning",  # of moto and botocore
    "ignore:unclosed.*socket:ResourceWarning",  # of the server's threads
]
pytestmark = [pytest.mark.timeout(900), *(pytest.mark.filterwarnings(words) for words in QUIET)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server with the bucket `runs`, where this process and what it starts look for S3."""
    import boto3
    from moto.server import ThreadedMotoServer

    served = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    address = "http://{}:{}".format(*served.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        boto3.client("s3").create_bucket(Bucket="runs")
        yield address
    served.stop()


def fetched(url: str, into: Path) -> Path:
    """Bring a run folder to the disk."""
    folder = Folder(url)
    for name in folder.files():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(folder.read(name))
    return into


@pytest.mark.slow
def test_an_audit_in_a_bucket_is_that_on_a_disk(capsys, tmp_path: Path, whole: Path, server: str) -> None:
    url = "s3://runs/one"
    code, out, err = command_line(capsys, *COMMAND, "--out", url)
    assert code == 0, err
    assert f"Report: {url}/report.html" in out
    same(whole, fetched(url, tmp_path / "one"))
    damaged = next(name for name in Folder(url).files("cache") if name.endswith("8-0000016.safetensors"))
    Folder(url).write(damaged, lambda path: path.write_bytes(b"half"))
    removed = [name for name in Folder(url).files() if name.startswith(("record", "report", "tables"))]
    for name in removed:
        Folder(url).delete(name)
    code, _, err = command_line(capsys, *COMMAND, "--out", url)
    assert code == 0, err
    again = fetched(url, tmp_path / "again")
    same(whole, again)
    shards = len(list((whole / "cache").rglob("*.safetensors")))
    assert f'"resumed_shards": {shards - 1}' in (again / "record.json").read_text()
    Folder(url).delete("report.html")
    code, out, err = command_line(capsys, "report", url)
    assert code == 0, err
    assert Folder(url).exists("report.html")
    line = refused(capsys, "audit", *COMMAND[1:], "--out", url, "--seed", "1")
    assert "holds another audit" in line


@pytest.mark.slow
def test_workers_and_parts_share_a_bucket(capsys, tmp_path: Path, whole: Path, server: str) -> None:
    run = holdfast(*COMMAND, "--out", "s3://runs/two", "--workers", "2")
    _, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    same(whole, fetched("s3://runs/two", tmp_path / "two"))
    runs = [holdfast(*COMMAND, "--out", "s3://runs/three", "--shard", f"{n}/2") for n in (1, 2)]
    told = [run.communicate(timeout=600) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    code, _, err = command_line(capsys, "merge", "s3://runs/three", "--trust")
    assert code == 0, err
    same(whole, fetched("s3://runs/three", tmp_path / "three"))
    code, _, err = command_line(capsys, "merge", str(tmp_path / "four"), "s3://runs/three", "--trust")
    assert code == 0, err
    same(whole, tmp_path / "four")


@pytest.mark.slow
def test_parts_and_workers_that_share_a_folder_that_is_no_disk(tmp_path: Path) -> None:
    MemoryFileSystem.store.clear()
    encoders = (WATCHED, "zoo:digits-simclr")
    run_audit(plan(*encoders), tmp_path / "one")
    run_audit(plan(*encoders), "memory://one", engine=Turns())
    same(tmp_path / "one", fetched("memory://one", tmp_path / "two"))
    parts(plan(*encoders), ["memory://a", "memory://b"])
    with pytest.raises(Missing, match="--trust"):
        merge_parts("memory://c", ["memory://a", "memory://b"])
    merge_parts("memory://c", ["memory://a", "memory://b"], trust=True)
    same(tmp_path / "one", fetched("memory://c", tmp_path / "three"))


def authorise(server: str, after: float) -> None:
    """Let a server refuse the keys of these tests after so many requests."""
    text = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(f"{server}/moto-api/reset-auth", str(after).encode(), text)).close()


@pytest.mark.slow
def test_a_store_without_permission_is_told_in_one_line(capsys, tmp_path: Path, server: str) -> None:
    line = refused(capsys, *COMMAND, "--out", "s3://elsewhere/run", status=ExitStatus.NOTHING)
    assert "s3://elsewhere/run" in line
    assert "bucket does not exist" in line
    line = refused(capsys, *COMMAND, "--out", "s3://elsewhere/run", "--workers", "2", status=ExitStatus.NOTHING)
    assert "bucket does not exist" in line
    line = refused(capsys, "report", "s3://runs/nothing", status=ExitStatus.NOTHING)
    assert "s3://runs/nothing" in line
    line = refused(capsys, "merge", "s3://runs/nothing", status=ExitStatus.NOTHING)
    assert "expected a folder with a part of an audit" in line
    authorise(server, 0)
    try:
        line = refused(capsys, *COMMAND, "--out", "s3://runs/denied", status=ExitStatus.NOTHING)
        assert "s3://runs/denied" in line
        assert "Access Key Id" in line
    finally:
        authorise(server, math.inf)


def test_s3_without_its_package_names_the_extra(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(file_systems, "s3", raising=False)  # where an earlier test has opened a bucket
    line = refused(capsys, *COMMAND, "--out", "s3://missing/run")
    assert "pip install -c constraints.txt '.[s3]'" in line


@pytest.mark.slow
def test_a_bucket_that_fills_up_ends_the_audit_with_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    MemoryFileSystem.store.clear()
    put, written = MemoryFileSystem.put_file, []

    def full(self, lpath: str, rpath: str, **options) -> None:
        written.append(rpath)
        if len(written) > 8:
            raise PermissionError("no more for you")
        put(self, lpath, rpath, **options)

    monkeypatch.setattr(MemoryFileSystem, "put_file", full)
    with pytest.raises(BadPlace, match="memory://full/"):
        run_audit(plan(), "memory://full", engine=Turns())
    monkeypatch.setattr(MemoryFileSystem, "put_file", put)
    record = run_audit(plan(), "memory://full", engine=Turns())
    assert record["failures"] == []
    assert record["run"]["resumed_shards"] > 0
    with pytest.raises(BadPlace):
        run_audit(plan(), "memory://full", engine=Processes(1))
