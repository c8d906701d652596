"""The command line, good and bad input, as a user types it."""

import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import typer

import holdfast
from holdfast import cli
from holdfast.cli import common
from holdfast.runtime.errors import HoldfastError, NothingAudited, UnreadableRecord
from holdfast.runtime.exit_status import ExitStatus
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.run_folder import StoreError

TINY = ["--profile", "quick", "--images", "24", "--attacked", "8", "--set", "*.attack.steps=3"]


def ball_of(measure: dict) -> dict:
    """Return the ball of a measure's spec, or of its noise."""
    return measure["ball"] if "ball" in measure else measure["noise"]["ball"]


def status_of(*arguments: str) -> int:
    """Run the command line in this process and return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["holdfast", *arguments])
        patch.setattr(common.out, "width", 200)
        patch.setattr(common.err, "width", 200)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command line in this process: exit status, stdout, stderr."""
    status, (stdout, stderr) = status_of(*arguments), capsys.readouterr()
    return status, stdout, stderr


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = ExitStatus.USAGE) -> str:
    """Run something that must fail with one clear line; return that line."""
    code, _, err = run(capsys, *arguments)
    assert code == status, err
    *progress, last = err.strip().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in progress), err
    assert last.startswith("error: ")
    return last


def test_audit_prints_writes_and_reports_again(capsys, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, out, err = run(
        capsys, "audit", "zoo:digits-simclr", "zoo:digits-simclr-adv", "--data", "digits", "--out", str(folder), *TINY
    )
    assert code == 0, err
    assert "Breakaway risk" in out
    assert "\x1b[" not in out  # no colours when piped
    assert (folder / "report.html").stat().st_size > 10_000
    again, report, _ = run(capsys, "report", str(folder))
    assert again == 0
    assert report == out


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder of an audit with a radius of its own in one measure, and what --json printed."""
    folder, out = tmp_path_factory.mktemp("json"), io.StringIO()
    settings = ["--eps", "4/255", "--set", "universal_quantile.ball.radius=0.2"]
    with contextlib.redirect_stdout(out):
        audit = ["audit", "zoo:digits-simclr", "--data", "digits", "--out", str(folder), "--json"]
        assert status_of(*audit, *TINY, *settings) == 0
    return folder, out.getvalue()


def test_json_is_the_record_and_nothing_else(printed) -> None:
    folder, out = printed
    assert json.loads(out) == json.loads((folder / "record.json").read_text())


def test_settings_reach_one_measure_and_eps_may_be_a_fraction(printed) -> None:
    radii = {m["name"]: ball_of(m)["radius"] for m in json.loads(printed[1])["plan"]["measures"]}
    assert radii.pop("universal_quantile") == 0.2
    assert set(radii.values()) == {4 / 255}


def test_a_plan_file_says_the_same(capsys, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        """
encoders = ["zoo:digits-simclr"]
data = "digits"
images = 24
attacked = 8
seed = 3
[[measures]]
name = "breakaway_risk"
divergence = "cosine"
attack = { name = "apgd", steps = 4 }
"""
    )
    code, out, err = run(capsys, "audit", str(plan), "--out", str(tmp_path / "run"), "--json")
    assert code == 0, err
    record = json.loads(out)
    assert record["plan"]["seed"] == 3
    (measure,) = record["plan"]["measures"]
    assert measure["divergence"] == "cosine"
    assert measure["attack"] == {"kind": "attacks", "name": "apgd", "steps": 4, "restarts": 1}


@pytest.mark.parametrize("kind", [None, "encoders", "data", "attacks", "measures", "checks", "profiles"])
def test_list(capsys, kind) -> None:
    code, out, _ = run(capsys, "list", *([kind] if kind else []))
    assert code == 0
    assert out.strip()


def test_show_explains_inherited_parameters_and_profiles(capsys) -> None:
    _, out, _ = run(capsys, "show", "certified_drift")
    words = " ".join(out.split())
    assert "certifier how to bound" in words
    assert "first certify only the first images" in words
    _, out, _ = run(capsys, "show", "rvcl")
    assert "ε by the images" in out
    assert "How far can an image move before a linear classifier" in " ".join(out.split())
    assert "linear_radius: steps = 100" in out
    assert "for an encoder that takes 10 ms an image" in " ".join(out.split())
    _, out, _ = run(capsys, "show", "paper")
    assert "change by up to 12.8/255 (ε in ℓ∞)" in " ".join(out.split())
    assert "no further round" not in out
    _, out, _ = run(capsys, "show", "quick")
    assert "After 2 min no further round" in out
    assert "breakaway_risk: attack = pgd of 20 steps" in " ".join(out.split())
    _, out, _ = run(capsys, "show", "standard")
    assert "ensemble (apgd of 50 steps, pgd of 50 steps, square of 200 steps)" in " ".join(out.split())


@pytest.mark.parametrize("name", ["breakaway_risk", "apgd", "linf", "masking", "nt_xent"])
def test_show_explains(capsys, name: str) -> None:
    code, out, _ = run(capsys, "show", name)
    assert code == 0
    assert "Parameters" in out


def test_show_says_what_an_encoder_sees(capsys, tmp_path: Path) -> None:
    photos, seen = tmp_path / "photos", tmp_path / "seen.png"
    photos.mkdir()
    for number, shape in enumerate([(40, 60), (60, 40), (50, 50)]):
        draw = np.random.default_rng(number)
        PIL.Image.fromarray(draw.integers(0, 256, (*shape, 3), dtype=np.uint8)).save(photos / f"{number}.png")
    spec = "zoo:cnn_b_cifar?resize=40&crop=32"
    code, out, _ = run(capsys, "show", spec, "--data", str(photos), "--out", str(seen))
    assert code == 0
    assert "the shorter side to 40 pixels (bicubic), then the central 32 × 32 is cropped" in out
    assert "resize=40&crop=32 given in the spec; else zoo architecture" in out
    assert "zoo architecture (no normalisation)" in out
    assert "100 numbers" in out
    assert "3 of 3 images" in out
    # the picture: three inputs of the encoder, enlarged pixel by pixel
    drawn = np.asarray(PIL.Image.open(seen))
    encoder = open_encoder(spec)
    x = open_images(photos, geometry=encoder.geometry).batch(0, 3).mul(255).round().numpy()
    assert drawn.shape == (128, 3 * 128 + 2 * 4, 3)
    for number, image in enumerate(x.transpose(0, 2, 3, 1)):
        assert np.array_equal(drawn[::4, number * 132 : number * 132 + 128 : 4], image)


def test_show_explains_an_encoder_without_images(capsys) -> None:
    code, out, _ = run(capsys, "show", "zoo:digits-simclr")
    assert code == 0
    assert "metadata of the shipped weights" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pgd", "--data", "digits"], "expected an encoder to see the images"),
        (["zoo:digits-simclr", "--out", "x.png"], "--out: expected --data as well"),
        (["zoo:digits-simclr", "--data", "digits", "--out", "x.jpg"], "expected the name of a PNG file"),
        (["zoo:digits-simclr", "--data", "digits", "--out", "/nowhere/x.png"], "no such file or folder"),
        (["zoo:digits-simcl"], "did you mean 'digits-simclr'"),
    ],
)
def test_show_refuses(capsys, arguments: list[str], says: str) -> None:
    assert says in refused(capsys, "show", *arguments)


def test_the_version_is_said(capsys) -> None:
    assert run(capsys, "--version")[:2] == (0, f"holdfast {holdfast.__version__}\n")


def test_doctor_names_what_is_there(capsys) -> None:
    _, out, _ = run(capsys, "doctor", "--json")
    assert {"torch", "timm", "transformers"} <= {item["name"] for item in json.loads(out)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["audit", "zoo:digits-simclr"], "no images"),
        (["audit", "zoo:digits-simclr", "--data", "no-such-folder"], "no-such-folder"),
        (["audit", "zoo:digits-simclr", "--data", "digitz:x"], "did you mean"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--profile", "qick"], "did you mean 'quick'"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--norm", "l3"], "unknown norm 'l3'"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--eps", "8"], "pixels of a [0, 1] image"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--eps", "8"], "did you mean 8/255"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--eps", "nan"], "expected a finite number"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--eps", "-1"], "expected 0 or more"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--set", "breakaway_rsk.ball.radius=1"], "did you mean"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--set", "breakaway_risk.bal.radius=1"], "did you mean"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--set", "breakaway_risk.ball.radius"], "expected"),
        (
            ["audit", "zoo:digits-simclr", "--data", "digits", "--profile", "quick", "--set", "*.attack.steps=many"],
            "expected",
        ),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--device", "cuda:99"], "device 'cuda:99'"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--images", "1"], "at least 2"),
        (["audit", "no-such.toml"], "no plan 'no-such.toml'"),
        (["list", "gadgets"], "unknown kind"),
        (["show", "breakaway_rsk"], "did you mean 'breakaway_risk'"),
        (["audit", "zoo:digits-simclr", "--data", "digits", "--eps", "4/0"], "expected a finite number"),
        (["audit", "zoo:digits-simclr", "--date", "digits"], "--data"),
        (["audit"], "Missing argument"),
        (["adit"], "No such command"),
    ],
)
def test_bad_requests_are_one_line(capsys, tmp_path: Path, monkeypatch, arguments: list[str], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, *arguments)


@pytest.mark.parametrize("command", ["report", "check", "compare", "leaderboard", "merge"])
def test_a_folder_without_a_record_is_no_wrong_usage(capsys, tmp_path: Path, monkeypatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["--require", "breakaway_risk < 5 %"] if command == "check" else []
    assert "no-such-folder" in refused(capsys, command, "no-such-folder", *asked, status=ExitStatus.NOTHING)


def test_some_encoders_failed(capsys, tmp_path: Path) -> None:
    """Part of the work: a status of its own, beside a record."""
    encoders = ["zoo:digits-simclr", "zoo:cnn_a_cifar"]
    cheap = ["--profile", "feature_space", "--images", "24", "--json"]
    code, out, err = run(capsys, "audit", *encoders, "--data", "digits", "--out", str(tmp_path), *cheap)
    assert code == ExitStatus.UNMET, err
    assert [row["error_code"] for row in json.loads(out)["encoders"]] == [None, "mismatch"]


def raising(error: BaseException) -> Callable[..., object]:
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (HoldfastError("wrong"), 2, "error: wrong [error]"),
        (NothingAudited("nothing"), 3, "error: nothing [failed]"),
        (UnreadableRecord("damaged"), 3, "error: damaged [bad-data]"),
        (StoreError("full"), 3, "error: full [bad-place]"),
        (ZeroDivisionError("division by zero"), 4, "a fault of Holdfast, not yours: ZeroDivisionError"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_every_end_has_a_status_and_one_line(capsys, monkeypatch, error, status: int, said: str) -> None:
    app = typer.Typer()
    app.command()(raising(error))
    monkeypatch.setattr(cli, "app", app)
    code, _, err = run(capsys)
    assert code == status
    assert said in err
    assert len(err.strip().splitlines()) == 1
    if status == ExitStatus.FAULT:
        kept = Path(err.split("traceback is in ")[1].split(";")[0])
        assert "ZeroDivisionError: division by zero" in kept.read_text()
        kept.unlink()


def bad_images(folder: Path) -> dict[str, str]:
    """Every kind of bad images, by the words that its error must contain."""
    rng = np.random.default_rng(0)
    good = rng.random((6, 8, 8), dtype=np.float32)
    np.save(folder / "bytes.npy", good * 255)
    nan = good.copy()
    nan[2, 3, 3] = np.nan
    np.save(folder / "nan.npy", nan)
    np.save(folder / "one.npy", good[:1])
    (folder / "empty").mkdir()
    for name in ("text", "single"):
        (folder / name).mkdir()
        for i in range(1 if name == "single" else 5):
            PIL.Image.fromarray((good[i] * 255).astype(np.uint8)).save(folder / name / f"{i}.png")
    (folder / "text" / "fake.jpg").write_text("this is not a picture")
    return {
        "bytes.npy": "255",
        "nan.npy": "NaN",
        "one.npy": "single image",
        "empty": "empty",
        "single": "2",
        "text": "fake.jpg",
    }


def test_bad_images_are_one_line(capsys, tmp_path: Path) -> None:
    for name, says in bad_images(tmp_path).items():
        line = refused(
            capsys, "audit", "zoo:digits-simclr", "--data", str(tmp_path / name), "--out", str(tmp_path / "run"), *TINY
        )
        assert says in line, (name, line)


def test_corrupt_files_are_skipped_when_asked_and_named(capsys, tmp_path: Path) -> None:
    bad_images(tmp_path)
    plan, data = tmp_path / "plan.toml", str(tmp_path / "text")
    plan.write_text('encoders = ["zoo:digits-simclr"]\n[[measures]]\nname = "uniformity"\n')
    arguments = ["audit", str(plan), "--data", data, "--out", str(tmp_path / "run"), "--json"]
    code, out, err = run(capsys, *arguments, "--skip-corrupt")
    assert code == 0, err
    (skipped,) = json.loads(out)["data"]["skipped"]
    assert skipped[0] == "fake.jpg"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return x[:, :, :4, :4]", "pool=avg"),
        ("return torch.fft.fft(x.flatten(1))", "complex"),
        ("return x.flatten(1) / 0 * 0", "NaN"),
        ("return [x.flatten(1), x]", "list"),
    ],
)
def test_bad_encoders_are_named_and_the_status_is_not_zero(capsys, tmp_path, monkeypatch, body, says) -> None:
    module = f"bad_encoder_{abs(hash(body))}"
    source = [
        "import torch",
        "class Net(torch.nn.Module):",
        "    def forward(self, x):",
        f"        {body}",
        "make = Net",
    ]
    (tmp_path / f"{module}.py").write_text("\n".join(source))
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "audit", f"py:{module}:make?mean=0&std=1", "--data", "digits", *TINY)
    assert code == ExitStatus.NOTHING
    assert says in err, (out, err)


def test_an_audit_of_no_encoder_but_a_misspelt_one_came_to_nothing(capsys, tmp_path: Path) -> None:
    command = ("audit", "zoo:digits-simcl", "--data", "digits", "--out", str(tmp_path), *TINY)
    assert "did you mean 'digits-simclr'" in refused(capsys, *command, status=ExitStatus.NOTHING)


def test_wrong_channels_say_what_to_do(capsys, tmp_path: Path) -> None:
    code, _, err = run(capsys, "audit", "zoo:cnn_a_cifar", "--data", "digits?size=32", "--out", str(tmp_path), *TINY)
    assert code == ExitStatus.NOTHING
    assert "channels=3" in err


def test_unwritable_folder(capsys, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "run")
    line = refused(
        capsys, "audit", "zoo:digits-simclr", "--data", "digits", "--out", folder, *TINY, status=ExitStatus.NOTHING
    )
    assert "choose another place" in line


def test_a_name_of_a_profile_and_of_a_measure_shows_both(capsys) -> None:
    _, out, _ = run(capsys, "show", "synbench")
    assert "synbench (profile)" in out
    assert "synbench (measure)" in out
