"""What is no file where one is expected, in every option that takes a path; outputs that are none; closed streams."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_command_line import run
from typer.main import get_command

from holdfast import cli
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.runtime.exit_status import ExitStatus
from json_records import run_audit

pytestmark = pytest.mark.timeout(60)

ENCODER, DIGITS = "zoo:digits-simclr", ["--data", "digits", "--images", "12"]

READ = {
    ("audit", "encoders"): [
        ["{it}.safetensors?mean=0&std=1", *DIGITS], [f"{ENCODER}?weights={{it}}.safetensors", *DIGITS],
        [f"{ENCODER}?weights={{it}}.pt", *DIGITS], ["onnx:{it}.onnx?mean=0&std=1", *DIGITS],
    ],
    ("audit", "--data"): [
        [ENCODER, "--data", name]
        for name in ("{it}.npz", "{it}.npy", "{it}.tar", "list:{it}.txt", "retrieval:{it}", "hf:{it}.parquet",
                     "{pictures}")
    ],
    ("audit", "--train"): [[ENCODER, *DIGITS, "--train", "{it}.npz"]],
    ("audit", "--profile"): [[ENCODER, *DIGITS, "--profile", "{it}.toml"]],
    ("audit", "--until"): [],
    ("audit", "--surrogate"): [
        [ENCODER, *DIGITS, "--measure", "breakaway_risk", "--surrogate", "{it}.safetensors?mean=0&std=1"]
    ],
    ("merge", "folder"): [["{run}"]], ("merge", "others"): [["{good}", "{run}"]],
    ("check", "folder"): [["{run}", "--require", "breaking_radius > 1/255"]],
    ("check", "--require-file"): [["{good}", "--require-file", "{it}.txt"]],
    ("check", "--baseline"): [["{good}", "--baseline", "{run}"]],
    ("check", "--canaries"): [["{good}", "--baseline", "{good}", "--canaries", "{it}.csv"]],
    ("compare", "folders"): [["{run}", "{run}2"]], ("figures", "folders"): [["{run}"]],
    ("compare-index", "old"): [["{it}.safetensors?mean=0&std=1", ENCODER, *DIGITS],
    *(["vectors:{it}." + end, "vectors:{it}." + end] for end in ("npy", "parquet", "csv"))],
    ("compare-index", "new"): [[ENCODER, "{it}.safetensors?mean=0&std=1", *DIGITS]],
    ("compare-index", "--data"): [[ENCODER, ENCODER, "--data", "{it}.npz"]],
    ("compare-index", "--canaries"): [[ENCODER, ENCODER, *DIGITS, "--canaries", "{it}.csv"]],
    ("parity", "old"): [["{it}.safetensors?mean=0&std=1", ENCODER, *DIGITS]],
    ("parity", "new"): [[ENCODER, "{it}.safetensors?mean=0&std=1", *DIGITS]],
    ("parity", "--data"): [[ENCODER, ENCODER, "--data", "{it}.npz"]],
    ("parity", "--canaries"): [[ENCODER, ENCODER, *DIGITS, "--canaries", "{it}.csv"]],
    ("audit-index", "vectors"): [["vectors:{it}." + end] for end in ("npy", "parquet", "csv")],
    ("leaderboard", "folder"): [["{run}"]],
    ("view", "folder"): [["{it}.toml", "--out", "{out}"]],
    ("train", "recipe"): [["{it}.toml"]], ("train", "--data"): [["{recipe}", "--data", "{it}.npz", "--out", "{out}"]],
    ("study", "file"): [["{it}.toml"]], ("study", "--data"): [], ("study", "--test"): [],
    ("harden", "encoder"): [["{it}.safetensors?mean=0&std=1", *DIGITS[:2], "--out", "{out}"]],
    ("harden", "--data"): [[ENCODER, "--data", "{it}.npz", "--out", "{out}"]],
    ("harden", "--pace"): [[ENCODER, *DIGITS[:2], "--pace", "{it}.json", "--out", "{out}"]],
    ("harden", "--head"): [[ENCODER, *DIGITS[:2], "--objective", "trades", "--head", "{it}.safetensors", "--out",
    "{out}"]],
    ("harden", "--test"): [[ENCODER, *DIGITS[:2], "--test", "{it}.npz", "--out", "{out}"]],
    ("harden", "--train"): [], ("harden", "--profile"): [],
    ("certify", "encoder"): [["{it}.safetensors?mean=0&std=1", "--image", "{it}.png", "--against", "{it}.png"]],
    ("certify", "--image"): [[ENCODER, "--image", "{it}.png", "--against", "{it}.png"]],
    ("certify", "--against"): [],
    ("certify", "--pairs"): [[ENCODER, "--pairs", "{it}.csv"]],
    ("certify", "--data"): [[ENCODER, "--data", "{it}.npz", "--image", "a", "--against", "b"]],
    ("reproduce", "name"): [["{it}.toml"]], ("reproduce", "--profile"): [], ("reproduce", "--input"): [],
    ("reproduce", "--says"): [],
    ("export-vnnlib", "encoder"): [["{it}.safetensors?mean=0&std=1", *DIGITS, "--out", "{out}"]],
    ("export-vnnlib", "--data"): [[ENCODER, "--data", "{it}.npz", "--out", "{out}"]],
    ("export-vnnlib", "--head"): [[ENCODER, *DIGITS, "--head", f"{{it}}.{end}", "--out",
    "{out}"] for end in ("safetensors", "onnx")],
    ("verify", "onnx"): [["{it}.onnx", "{vnnlib}"]], ("verify", "vnnlib"): [["{it}.onnx", "{it}.vnnlib"]],
    ("embed-names", "encoder"): [],
    ("embed-names", "--names"): [["openclip:ViT-B-32?weights=random", "--names", "{it}.txt", "--out",
    "{out}.safetensors"]],
    ("embed-names", "--captions"): [["openclip:ViT-B-32?weights=random", "--captions", "{it}.csv", "--out",
    "{out}.safetensors"]],
    ("report", "folder"): [["{run}"]],
    ("show", "name"): [["{it}.safetensors?mean=0&std=1"]], ("show", "--data"): [[ENCODER, "--data", "{it}.npz"]],
    ("list", "--parts"): [["--parts", "{it}.py"]],
}  # fmt: skip
"""(command, option or argument that is read) -> arguments, of which one is no file."""

WRITTEN = {
    ("demo", "--out"), ("audit", "--out"), ("compare-index", "--out"), ("audit-index", "--out"),
    ("compare-index", "--edits"), ("parity", "--out"), ("parity", "--edits"),
    ("figures", "--out"),
    ("view", "--out"), ("train", "--out"), ("study", "--out"), ("harden", "--out"), ("reproduce", "--out"),
    ("certify", "--out"),
    ("export-vnnlib", "--out"), ("verify", "--counterexample"), ("embed-names", "--out"), ("report", "--mteb"),
    ("compare", "--eval-results"), ("check", "--junit"), ("check", "--summary"), ("compare", "--csv"),
    ("compare", "--parquet"),
    ("compare", "--markdown"), ("compare", "--latex"), ("compare", "--html"), ("leaderboard", "--out"),
    ("report", "--model-card"), ("report", "--evidence"), ("report", "--cite"), ("show", "--out"),
}  # fmt: skip
"""Options that name what is written."""

OTHERS = """
    --json --quiet --seed --parts --train-images --budget --eps --norm --measure --set --images --attacked --proved
    --device --batch-size --skip-corrupt --skip-duplicates --precision --compiled --compile --workers --engine --address
    --gpus --shard --allow --calls --strict --overwrite --dry-run --calibrate --complete --trust --require --allow-drop
    --match --rate
    --threshold --divergence --encoder --annotate --correction --x --y --digits --transpose --p-values --benchmark
    --source-url --k --format --only --width --height --font --size --marks --dpi --port --host --open --epochs --track
    --objective --steps --attack --views --batchnorm --rehearse --image --negatives --label --seconds --certifier
    --lora --lora-rank --attack-steps --attack-step --patience --ema --clip --certified --template --no-pictures
    --freeze --groups --sigma --draws --alpha --same --queries --similar kind
"""
NO_PATH = frozenset(OTHERS.split())
"""Options that name no file; --parts is the same everywhere."""

SAYS_WHAT_IT_LEAVES_OUT = ("view", "leaderboard", "audit")
"""Commands that go on with the rest, of a folder of runs or of what an encoder is compared with."""

ENDS = ("safetensors", "pt", "onnx", "npz", "npy", "tar", "txt", "parquet", "toml", "csv", "json", "py", "vnnlib")

KINDS = ("pipe", "device", "socket", "folder", "circle", "sparse")


def test_every_option_is_known_to_take_a_path_or_none() -> None:
    for name, command in get_command(cli.app).commands.items():  # pyright: ignore[reportAttributeAccessIssue]
        for option in command.params:
            called = option.opts[0] if option.opts else option.name
            known = (name, called) in READ or (name, called) in WRITTEN or called in NO_PATH
            assert known, f"holdfast {name} {called}: say here whether it takes a path"


def put(kind: str, place: Path) -> None:
    """Put something that is no file of a usual size."""
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as own:
            own.bind(os.path.relpath(place))
    elif kind == "folder":
        place.mkdir()
    elif kind == "circle":
        place.symlink_to(place.name)
    else:
        with place.open("wb") as file:
            file.truncate(2**42)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "run"
    plan = make_plan(
        AuditRequest([ENCODER, "zoo:digits-supervised"], "digits", measures=["breakaway_risk"], images=12, attacked=4)
    )
    run_audit(plan, folder)
    return folder


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, marks=[pytest.mark.slow] * (kind not in ("pipe", "circle", "sparse"))) for kind in KINDS
    ],
)
def places(
    request: pytest.FixtureRequest, good: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    kind, home = request.param, tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for end in [
            "safetensors",
            "pt",
            "onnx",
            "npz",
            "npy",
            "tar",
            "txt",
            "parquet",
            "toml",
            "csv",
            "json",
            "py",
            "vnnlib",
            "png",
        ]:
            put(kind, home / f"it.{end}")
        for name in ("run", "run2"):
            (home / name).mkdir()
            put(kind, home / name / "record.json")
            put(kind, home / name / "plan.json")
        for name in ("pictures", "it"):
            (home / name).mkdir()
        put(kind, home / "pictures" / "a.png")
        for name in ("queries.jsonl", "corpus.jsonl"):
            put(kind, home / "it" / name)
        (home / "recipe.toml").write_text('encoder = "zoo:digits-simclr"\ndata = "digits"\nmethod = "simclr"\n')
        named = {name: str(home / name) for name in ("it", "run", "pictures", "out")}
        yield named | {"good": str(good), "recipe": str(home / "recipe.toml"), "vnnlib": str(home / "it.vnnlib")}


CASES = [(command, arguments) for (command, _), each in READ.items() for arguments in each]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("command", "arguments"), CASES, ids=[" ".join([c, *a])[:70] for c, a in CASES])
def test_what_is_no_file_is_refused_in_a_line(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], command: str, arguments: list[str]
) -> None:
    status, _, said = run(capsys, command, *(argument.format(**places) for argument in arguments))
    assert "Traceback" not in said
    assert "a fault of Holdfast" not in said
    assert status in (ExitStatus.USAGE, ExitStatus.NOTHING) or command in SAYS_WHAT_IT_LEAVES_OUT, said


# --- outputs --------------------------------------------------------------------------------------

OUTPUTS = [
    ["check", "{good}", "--require", "{met}", "--junit", "{it}"],
    ["check", "{good}", "--require", "{met}", "--summary", "{it}"],
    *(["compare", "{good}", f"--{form}", "{it}"] for form in ("csv", "parquet", "markdown", "latex", "html")),
    ["leaderboard", "{good}", "--out", "{it}"], ["report", "{good}", "--encoder", "{name}", "--model-card", "{it}"],
    ["report", "{good}", "--encoder", "{name}", "--evidence", "{it}"],
]  # fmt: skip


@pytest.fixture
def words(good: Path) -> dict[str, str]:
    return {
        "good": str(good),
        "met": "breakaway_risk < 100 %",
        "unmet": "breakaway_risk < 0.001 %",
        "name": "zoo:digits-simclr",
    }


@pytest.mark.parametrize("arguments", OUTPUTS, ids=[" ".join([a[0], a[-2]]) for a in OUTPUTS])
def test_outputs_go_through_links_and_into_what_is_no_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: dict[str, str], arguments: list[str]
) -> None:
    end = ".md" if {"--model-card", "--evidence"} & {*arguments} else ".out"

    def write(name: str) -> tuple[int, str]:
        status, _, said = run(capsys, *(text.format(**words, it=tmp_path / name) for text in arguments))
        return status, said

    (tmp_path / f"real{end}").write_text("old")
    (tmp_path / f"link{end}").symlink_to(f"real{end}")
    status, said = write(f"link{end}")
    assert status in (ExitStatus.DONE, ExitStatus.UNMET), said
    assert (tmp_path / f"link{end}").is_symlink()
    assert (whole := (tmp_path / f"real{end}").read_bytes()) != b"old"
    # a pipe that somebody reads
    os.mkfifo(tmp_path / f"pipe{end}")
    came: list[bytes] = []
    reader = threading.Thread(target=lambda: came.append((tmp_path / f"pipe{end}").read_bytes()), daemon=True)
    reader.start()
    assert write(f"pipe{end}")[0] == status
    reader.join(20)
    assert len(came[0]) > len(whole) // 2
    # a disk that is full, a folder that is not there, a folder in its place
    (tmp_path / f"full{end}").symlink_to("/dev/full")
    code, said = write(f"full{end}")
    assert (code, "the disk is full" in said) == (ExitStatus.NOTHING, True)
    code, said = write(f"missing/x{end}")
    assert (code, "no such file or folder" in said) == (ExitStatus.USAGE, True)
    assert not (tmp_path / "missing").exists()
    (tmp_path / f"folder{end}").mkdir()
    assert write(f"folder{end}")[0] == ExitStatus.USAGE


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes devices")
def test_a_device_stays_one(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: dict[str, str]) -> None:
    own = tmp_path / "own"
    try:
        os.mknod(own, 0o20666, os.makedev(1, 3))
    except OSError:
        pytest.skip("no devices are made here")
    run(capsys, "check", words["good"], "--require", words["met"], "--junit", str(own))
    assert own.is_char_device()


# --- streams --------------------------------------------------------------------------------------

STREAMS = [
    ("list >&-", 3, "it is closed"), ("list >/dev/full", 3, "disk is full"),
    ("--version >/dev/full", 3, "disk is full"),
    ("check --help >&-", 3, "it is closed"), ("check {good} --require '{met}' --json >/dev/full", 3, "disk is full"),
    ("check {good} --require '{met}' --json >&-", 3, "it is closed"),
    ("check {good} --require '{unmet}' >&-", 1, "it is closed"),
    ("check {good} --require '{unmet}' >/dev/full", 1, "disk is full"),
    ("report {good} --json >/dev/full", 3, "disk is full"), ("list nonsense >&-", 2, "unknown"),
    ("list >&- 2>&-", 3, ""),
    ("list 2>&- >/dev/null", 0, ""), ("list 2>/dev/full >/dev/null", 0, ""), ("list <&- >/dev/null", 0, ""),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("line", "status", "says"), STREAMS, ids=[line for line, _, _ in STREAMS])
def test_no_answer_is_lost_without_a_word(words: dict[str, str], line: str, status: int, says: str) -> None:
    text = f"{sys.executable} -m holdfast {line.format(**words)}"
    ended = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=50)
    assert ended.returncode == status, ended.stderr
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) <= 1 or status == 1, ended.stderr
