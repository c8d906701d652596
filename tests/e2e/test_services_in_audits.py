"""Audits of services behind HTTP: the same numbers, no answer paid for twice, no call too many."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_command_line import refused, run

import holdfast
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.services import OPENING, foresee
from holdfast.core import Encoder
from holdfast.runtime.errors import NotEnough, NothingAudited
from holdfast.runtime.exit_status import ExitStatus
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared import connection
from holdfast.sources.encoders.shared import service as asking
from holdfast.sources.trust import executes
from holdfast.storage.answers import ANSWERS, Answers, counting, reading
from holdfast.storage.filesystem import Folder
from loopback import Asked, Loopback, Said, serve

W = np.random.default_rng(0).normal(size=(64, 12)).astype(np.float32)

IMAGES = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))

SMALL: dict[str, Any] = {
    "attacked": 4, "settings": {"breaking_radius.queries": 60, "*.attack.steps": 20}, "examined": 2, "queries": 20,
    "budget": "none",
}  # fmt: skip


def embed(images: np.ndarray) -> np.ndarray:
    # One by one, for sums round otherwise in a batch of another size
    return np.stack([np.maximum(image.reshape(-1) @ W, 0) for image in images])


def answer(asked: Asked) -> Said:
    return Said({"vectors": embed(asked.images).tolist()})


@pytest.fixture
def service() -> Iterator[Loopback]:
    with serve(answer) as service:
        yield service


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST", 0.001)


def numbers(record: Any) -> dict[str, Any]:
    (entry,) = record.data["encoders"]
    return {name: measure["scores"] for name, measure in entry["measures"].items()}


def test_a_service_has_the_numbers_of_its_function(service: Loopback, tmp_path: Path) -> None:
    there = holdfast.audit(f"http://{service.host}/embed", IMAGES, out=tmp_path, **SMALL)
    here = holdfast.audit(embed, IMAGES, **SMALL)
    assert not there.failures
    assert numbers(there) == numbers(here)  # to the last bit
    assert there.data["plan"]["profile"] == "black_box"
    (entry,) = there.data["encoders"]
    assert "fail" not in {check["status"] for name, check in entry["checks"].items() if "same" in name}
    # What was foreseen is enough, and not far too much
    plan = make_plan(
        AuditRequest((f"http://{service.host}/embed",), "digits", attacked=4, images=24, budget="none",
                     settings=("breaking_radius.queries=60", "*.attack.steps=20"), examined=2, queries=20)
    )  # fmt: skip
    (foreseen,) = foresee(plan, 24, None, (1, 8, 8))
    assert service.sent <= foreseen.images <= 2 * service.sent
    assert len(service.asked) <= foreseen.calls <= 3 * len(service.asked)
    # The folder remembers all of it
    before = len(service.asked)
    again = holdfast.audit(f"http://{service.host}/embed", IMAGES, out=tmp_path, **SMALL)
    assert numbers(again) == numbers(there)
    assert len(service.asked) - before < before / 8  # the checks, which ask again on purpose


def test_what_a_service_has_answered_is_not_asked_again(service: Loopback, tmp_path: Path) -> None:
    spec = f"http://{service.host}/embed?retries=0"
    holdfast.audit(spec, IMAGES, out=tmp_path / "whole", **SMALL)
    whole, seen = service.sent, len(service.asked)
    service.asked.clear()

    # It fails in the middle of a search, of which no shard is stored
    service.answer = lambda asked: answer(asked) if len(service.asked) < seen // 2 else Said(b"", 500)
    broken = holdfast.audit(spec, IMAGES, out=tmp_path / "broken", **SMALL)
    assert broken.failures
    answered = sum(len(asked.images) for asked in service.asked[: seen // 2 - 1])
    service.asked.clear()
    service.answer = answer
    mended = holdfast.audit(spec, IMAGES, out=tmp_path / "broken", **SMALL)
    assert not mended.failures
    # A few images are asked again, to see whether it is still the same
    assert service.sent <= whole - answered + 2 * asking.AGAIN + 60


def test_no_image_is_paid_for_twice(service: Loopback, tmp_path: Path) -> None:
    encoder, x = open_encoder(f"http://{service.host}/?batch=4"), torch.cat([IMAGES[:6], IMAGES[:3]])
    answers = Answers(Folder(tmp_path))
    with counting(answers), reading():
        first = encoder(x)
        assert [len(asked.images) for asked in service.asked] == [4, 2]
        assert torch.equal(encoder(IMAGES[3:8]), encoder(IMAGES[:8])[3:])
    assert service.sent == 8
    assert answers.calls == len(service.asked) == 3
    # Whoever checks it asks again
    with counting(answers):
        assert torch.equal(encoder(x), first)
    assert service.sent == 8 + 9
    # Another command looks at a few, and forgets all where they have changed
    service.asked.clear()
    with counting(Answers(Folder(tmp_path))), reading():
        assert torch.equal(encoder(x), first)
        assert service.sent == 6
        encoder(x)
        assert service.sent == 6
    service.answer = lambda asked: Said({"vectors": (embed(asked.images) + 1).tolist()})
    service.asked.clear()
    heard = list[str]()
    with counting(Answers(Folder(tmp_path), say=heard.append)), reading():
        assert torch.allclose(encoder(x), first + 1)
        assert heard == [
            f"http://{service.host}/ answers otherwise than it did: what was kept of it is forgotten, and asked again"
        ]
        assert service.sent == 6 + 6


def test_a_service_that_has_changed_is_asked_again(service: Loopback, tmp_path: Path) -> None:
    answers, spec = Answers(Folder(tmp_path)), f"http://{service.host}/"
    asked = {"measures": ["effective_rank"], "out": tmp_path, "attacked": 4}
    service.answer = lambda asked: answer(asked) if len(service.asked) < 3 else Said(b"", 404)
    with pytest.raises(NothingAudited):
        holdfast.audit(spec, IMAGES, batch_size=8, **asked)
    assert answers.calls == 3
    service.answer = lambda asked: Said({"vectors": (embed(asked.images) + 1).tolist()})
    changed = holdfast.audit(spec, IMAGES, batch_size=8, overwrite=True, **asked)
    service.asked.clear()
    fresh = holdfast.audit(spec, IMAGES, batch_size=8, measures=["effective_rank"], attacked=4)
    assert numbers(changed) == numbers(fresh)


def test_a_service_that_changes_its_mind_is_found(service: Loopback, tmp_path: Path) -> None:
    random = np.random.default_rng(1)

    def noisy(asked: Asked) -> Said:
        rows = embed(asked.images)
        return Said({"vectors": (rows + random.normal(size=rows.shape)).tolist()})

    service.answer = noisy
    record = holdfast.audit(f"http://{service.host}/", IMAGES, measures=["effective_rank"], attacked=4, out=tmp_path)
    (entry,) = record.data["encoders"]
    failed = {name for name, check in entry["checks"].items() if check["status"] == "fail"}
    assert failed


def test_a_service_that_becomes_another_one_is_found(service: Loopback) -> None:
    checked = holdfast.audit(f"http://{service.host}/", IMAGES, **SMALL)
    assert checked.data["encoders"][0]["checks"]["frozen"]["status"] == "pass"
    half = len(service.asked) // 2
    service.asked.clear()

    # From the middle on a new model answers, and always the same
    def deployed(asked: Asked) -> Said:
        old = len(service.asked) < half
        return Said({"vectors": (embed(asked.images) if old else embed(asked.images[..., ::-1])).tolist()})

    service.answer = deployed
    record = holdfast.audit(f"http://{service.host}/", IMAGES, **SMALL)
    check = record.data["encoders"][0]["checks"]["frozen"]
    assert check["status"] == "fail"
    assert "answered at the beginning" in check["finding"]


@pytest.mark.parametrize(
    "bad",
    [
        Said(b"", 500),
        Said(b"<html></html>", kind="text/html"),
        Said({"vectors": [[float("nan")] * 12] * 24}),
        Said({"vectors": [[1.0] * 12]}),
        Said({"vectors": [[1.0] * 3] * 24}),
        Said(b""),
    ],
    ids=["500", "text", "nan", "rows", "length", "nothing"],
)
def test_what_was_measured_before_it_failed_stays(bad: Said, service: Loopback, tmp_path: Path) -> None:
    first = SMALL | {"measures": ["effective_rank", "neighbour_consistency"], "out": tmp_path, "batch_size": 24}
    del first["settings"]
    # The clean representations are one call; all else fails
    service.answer = lambda asked: answer(asked) if len(service.asked) < 2 else bad
    record = holdfast.audit(f"http://{service.host}/?retries=0", IMAGES, **first)
    assert record["effective_rank"].value
    assert any("disturbed" in failure for failure in record.failures)
    assert not numbers(record)["neighbour_consistency"]
    assert all("\n" not in failure for failure in record.failures)
    service.answer = answer
    mended = holdfast.audit(f"http://{service.host}/?retries=0", IMAGES, **first)
    assert not mended.failures
    assert mended["neighbour_consistency"].value is not None
    assert numbers(mended)["effective_rank"] == numbers(record)["effective_rank"]


def test_more_calls_than_are_allowed_are_refused_before_the_first(service: Loopback, tmp_path: Path) -> None:
    with pytest.raises(NotEnough) as error:
        holdfast.audit(f"http://{service.host}/", IMAGES, calls=20, out=tmp_path, **SMALL)
    assert "--calls allows 20" in str(error.value)
    assert not service.asked


def test_no_call_is_made_too_many(service: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LONGEST", 0.001)
    # It answers one call in forty, and is asked again and again: nobody could foresee it
    service.answer = lambda asked: Said(b"", 503) if len(service.asked) % 40 else answer(asked)
    spec = f"http://{service.host}/?retries=100"
    asked = {"measures": ["neighbour_consistency"], "out": tmp_path, "attacked": 8, "batch_size": 8}
    record = holdfast.audit(spec, IMAGES, calls=200, **asked)
    assert any("all calls are made that --calls allows" in failure for failure in record.failures)
    assert len(service.asked) == Answers(Folder(tmp_path)).calls == 200
    # What it has answered is there for the next command, which may make as many again
    service.asked.clear()
    service.answer = answer
    assert not holdfast.audit(spec, IMAGES, calls=200, **asked).failures
    assert len(service.asked) <= 200


def test_an_audit_in_rounds_ends_where_its_calls_do(service: Loopback, tmp_path: Path) -> None:
    asked = SMALL | {"budget": "1h", "attacked": 12}
    record = holdfast.audit(f"http://{service.host}/", IMAGES, calls=750, out=tmp_path, batch_size=4, **asked)
    assert not record.failures
    assert record.data["run"]["rounds"]["ended"] == "calls"
    assert "more calls than --calls allows" in " ".join(str(record).split())
    assert len(service.asked) <= 750


def test_commands_say_who_gets_images(
    service: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = f"http://{service.host}/embed"
    command = ["audit", spec, "--data", "digits", "--images", "12", "--attacked", "4", "--measure", "effective_rank"]
    status, _, err = run(capsys, *command, "--out", "it")
    assert status == ExitStatus.DONE
    assert err.count(f"{service.host} gets up to") == 1
    assert executes(spec) == f"it sends images to {service.host}"
    service.answer = lambda asked: Said(b"", 500)
    line = refused(capsys, *command, "--out", "other", "--quiet", status=ExitStatus.NOTHING)
    assert "it says 500 Internal Server Error" in line


def test_a_dry_run_says_what_is_sent_and_what_it_costs(
    service: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["audit", f"http://{service.host}/?price=2&label=it", "--data", "digits", "--images", "40"]
    command += ["--measure", "neighbour_consistency", "--attacked", "10"]
    status, out, _ = run(capsys, *command, "--dry-run", "--json")
    assert status == ExitStatus.DONE
    (encoder,) = json.loads(out)["encoders"]
    images = encoder["passes"]["forward"]
    assert encoder["sends"].startswith(f"{service.host} gets up to {images:,} images in about")
    assert encoder["sends"].endswith(f"which cost up to {images / 500:,.2f} (it)")
    assert service.sent <= 16  # of it, whatever the audit takes
    status, out, _ = run(capsys, *command, "--dry-run")
    assert "gets up to" in " ".join(out.split())
    assert "longer --calibrate" not in " ".join(out.split())


def test_a_damaged_store_of_answers_costs_answers_alone(service: Loopback, tmp_path: Path) -> None:
    answers = Answers(Folder(tmp_path))
    answers.count_call("it")
    answers.keep(b"s", {b"a": np.ones(3, np.float32)})
    assert Answers(Folder(tmp_path)).calls == 1
    assert answers.find(b"s", [b"a", b"b"]).keys() == {b"a"}
    (tmp_path / ANSWERS).write_bytes(b"no database at all" * 1000)
    assert Answers(Folder(tmp_path)).find(b"s", [b"a"]) == {}


def test_the_oldest_answers_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.answers.MOST", 2**17)
    answers = Answers(Folder(tmp_path))
    for number in range(300):
        answers.keep(b"s", {number.to_bytes(2, "big"): np.ones(256, np.float32)})
    assert (tmp_path / ANSWERS).stat().st_size < 2**18
    kept = answers.find(b"s", [number.to_bytes(2, "big") for number in range(300)])
    assert (299).to_bytes(2, "big") in kept
    assert (0).to_bytes(2, "big") not in kept
    assert len(kept) > 50


def test_folders_elsewhere_keep_answers_for_as_long_as_a_process_lasts(tmp_path: Path) -> None:
    answers = Answers(Folder("memory://run"))
    assert answers.calls == 0
    answers.keep(b"s", {b"a": np.ones(3, np.float32)})
    assert answers.find(b"s", [b"a"])
    assert not Answers(Folder("memory://run")).find(b"s", [b"a"])


def test_a_record_holds_no_credential(service: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_KEY", "very-hidden-word")
    spec = f"http://{service.host}/?token_env=EMBED_KEY"
    holdfast.audit(spec, IMAGES, measures=["effective_rank"], attacked=4, out=tmp_path)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"very-hidden-word" not in path.read_bytes()
    # the name of the variable stays, so that the plan can be read again
    assert "token_env=EMBED_KEY" in json.dumps(json.loads((tmp_path / "plan.json").read_text()))


@pytest.mark.parametrize(("same", "edits"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_comparison_foresees_its_calls(same: bool, edits: bool, service: Loopback, tmp_path: Path) -> None:
    spec, asked = f"http://{service.host}/?batch=5", {"same": same, "edits": edits, "out": tmp_path}
    with pytest.raises(NotEnough) as error:
        holdfast.compare_index(embed, spec, IMAGES, calls=1, **asked)
    foreseen = re.search(r"up to (\d+) images in about (\d+) calls, and --calls allows 1;", str(error.value))
    assert foreseen
    assert not service.asked
    images, calls = map(int, foreseen.groups())
    holdfast.compare_index(embed, spec, IMAGES, calls=calls, **asked)
    assert len(service.asked) <= calls <= len(service.asked) + OPENING
    assert service.sent <= images <= 1.5 * service.sent  # of images that are equal one is sent
    # Neither what they may cost nor what was paid is another question
    service.asked.clear()
    holdfast.compare_index(embed, spec, IMAGES, calls=2, **asked)
    assert not service.asked


@pytest.mark.parametrize(("led", "each"), [(False, 734), (True, 110)])
def test_a_comparison_foresees_what_attacks_send(led: bool, each: int, service: Loopback, tmp_path: Path) -> None:
    """Of a side that is asked, or led by the gradient of the other one: more images for each that is attacked."""
    white = Encoder(torch.nn.Flatten(), mean=0, std=1, name="white")
    old, new = white if led else embed, f"http://{service.host}/?batch=5"

    def foresee_with(attacked: int) -> list[int]:
        with pytest.raises(NotEnough) as error:
            holdfast.compare_index(old, new, IMAGES, attacked=attacked, calls=1, out=tmp_path)
        foreseen = re.search(r"up to ([\d,]+) images in about ([\d,]+) calls, and --calls allows 1;", str(error.value))
        assert foreseen
        return [int(number.replace(",", "")) for number in foreseen.groups()]

    images, calls = foresee_with(attacked=2)
    assert images - foresee_with(attacked=0)[0] == 2 * each
    assert not service.asked
    record = holdfast.compare_index(old, new, IMAGES, attacked=2, calls=calls, out=tmp_path)
    assert 0.8 * 2 * each < record["attacked"]["passes"]["new"]["made"]["forward"] <= 2 * each
    # Equal images are sent once
    assert 100 < service.sent <= images
    assert len(service.asked) <= calls


def test_a_comparison_goes_on_from_what_was_paid_for(
    service: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connection, "LONGEST", 0.001)
    service.answer = lambda asked: answer(asked) if len(service.asked) % 10 == 1 else Said(b"", 503)
    spec = f"http://{service.host}/?retries=100&batch=4"
    command = ["parity", spec, f"{spec}&label=twin", "--data", "digits", "--images", "24"]
    command += ["--require", "overlap@10 > 50 %", "--calls"]
    # 24 images, clean and disturbed, in calls of four are 60, of two labels 120; of ten one is answered
    line = refused(capsys, *command, "150", "--quiet", status=ExitStatus.USAGE)
    assert "all calls are made that --calls allows; with more of them the same command goes on" in line
    assert len(service.asked) == 150
    service.answer = answer
    service.asked.clear()
    status, _, err = run(capsys, *command, "151")
    assert status == ExitStatus.DONE
    assert err.count(f"{service.host} gets up to") == 2
    # Both labels are of one service, which is asked for the clean ones again, to see that it is the same
    assert len(service.asked) <= 60 - 15 + 2


def test_a_comparison_of_an_index_keeps_answers(service: Loopback, tmp_path: Path) -> None:
    record = holdfast.compare_index(embed, f"http://{service.host}/", IMAGES, out=tmp_path)
    assert record["passed"]
    assert Answers(Folder(tmp_path)).calls == len(service.asked) > 0
    assert service.sent == len(IMAGES)
