"""The house: imports run one way, names are found, files stay small."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import holdfast

ROOT = Path(holdfast.__file__).parent

LAYERS: list[set[str]] = [
    {"philox"},
    {"errors", "rng", "torchvision_guard", "listener", "privacy"},
    {"checked", "documents"},
    {"compiled", "spec_string", "folders", "standing", "foreign", "record_shape"},
    {"precision", "screen", "trust", "record_file", "gate"},
    {"encoder"},
    {"worst_case"},
    {"labels"},
    {"observing"},
    {"core"},
    {
        "registry", "divergences", "statistics", "confidence", "negatives", "ratios", "correlations", "contributions",
        "nearest_shift", "remembered",
    },
    {
        "neighbours", "nearest_in_chunks", "feature_space", "spectrum", "fluctuation", "crossed", "margins",
        "robust_bayes", "synbench",
    },
    {"universal", "drawn_pairs"},
    {"encoders", "data", "threats", "objectives"},
    {"attacks"},
    {"certify", "smoothing", "probes", "estimators", "learners", "attention", "methods", "store", "engines"},
    {"failures", "training"},
    {"observations"},
    {"measures"},
    {"checks", "parts"},
    {"audit"},
    {"comparison", "monitoring", "study"},
    {"report", "progress"},
    {"harden", "reproduce", "results"},
    {"api"},
    {"hardened"},
    {"cli"},
]  # fmt: skip
"""Left never imports right; members of one layer never import each other."""


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """The parts of holdfast that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "holdfast" else [f"holdfast.{a.name}" for a in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("holdfast.")}
    return found


def level(part: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if part in layer)


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return
    for other in imports(path) - {part}:
        assert level(other) < level(part), f"{part} (layer {level(part)}) imports {other} (layer {level(other)})"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 400, f"{lines} lines: split it"


def test_report_imports_no_torch() -> None:
    code = "import sys, holdfast.report.html, holdfast.report.terminal; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_optional_packages_are_not_imported_eagerly() -> None:
    code = (
        "import sys, holdfast.cli, holdfast.audit.run, holdfast.audit.profiles;"
        "bad = {'timm', 'torchvision', 'transformers', 'open_clip', 'onnx2torch', 'datasets'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_module_can_be_imported() -> None:
    for path in files():
        name = ".".join(("holdfast", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if path.stem != "__main__":
            import_module(name)
