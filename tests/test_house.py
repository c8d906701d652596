"""The house: which floor stands on which is in pyproject.toml, checked by import-linter; here is the rest."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import holdfast
from counters import RISING, counts, limits, worse
from holdfast.core.registry import HOMES, KINDS
from holdfast.runtime.errors import HoldfastError

ROOT = Path(holdfast.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def modules(path: Path) -> set[str]:
    """The modules that a file imports names from, also inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def test_files_stay_small() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in FILES}
    assert not {path: lines for path, lines in lengths.items() if lines > 800}, "split by idea"


def test_the_house_gets_no_worse() -> None:
    assert not worse(counts(), limits()), "better is kept by: python tests/counters.py"


def test_a_count_that_rises_is_noticed() -> None:
    before = {"public names": 3, RISING[0]: 7}
    assert worse({"public names": 4, RISING[0]: 6}, before) == ["public names: 4, limit 3", f"{RISING[0]}: 6, limit 7"]
    assert not worse({"public names": 2, RISING[0]: 8}, before)


def test_each_error_says_its_kind() -> None:
    """By the kind programs tell what is to be done, and tests pin it in place of the sentence."""
    plain = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == HoldfastError.__name__
    ]
    assert not plain, "raise one of its kinds, see holdfast.runtime.errors"


def test_the_root_shows_the_floors() -> None:
    assert len(list(ROOT.glob("*.py"))) <= 6
    assert {path.name for path in (ROOT / "parts").iterdir() if (path / "__init__.py").is_file()} == set(KINDS) - set(
        HOMES
    )


def test_no_module_is_private() -> None:
    assert not [path for path in FILES if path.stem.startswith("_") and not path.stem.startswith("__")]


def test_help_and_report_imports_no_torch() -> None:
    modules = "holdfast.cli, holdfast.report.html, holdfast.report.documents.audit"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_line_begins_without_records() -> None:
    """Help and lists need none of what reads and writes them."""
    code = "import sys, holdfast.cli; sys.exit('msgspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_viewer_starts_without_torch_and_matplotlib() -> None:
    code = (
        "import sys, holdfast.workflows.view.server;"
        "bad = {'torch', 'matplotlib', 'pandas'} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_optional_packages_are_not_imported_eagerly(tmp_path: Path) -> None:
    """Nor is pandas where tables are written and read."""
    code = (
        "import sys, torch, holdfast.cli, holdfast.auditing.run, holdfast.auditing.profile;"
        "from holdfast.storage.run_folder import Store;"
        "from holdfast.report.folder import read_column; from holdfast.storage.record_file import RunFiles;"
        f"store = Store({str(tmp_path)!r});"
        "store.write_table('t.parquet', ['a', 'b'], {'x': torch.tensor([0.5, torch.nan])});"
        "column = read_column(RunFiles(store.files, {}), 't.parquet', 'x').tolist();"
        "optional = {'timm', 'torchvision', 'transformers', 'open_clip', 'onnxruntime', 'datasets', 'pandas'};"
        "print(column, *(optional & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[0.5, nan]\n"


def test_one_place_prints_what_is_said() -> None:
    """Answers are JSON, or documents, which one module shows; progress and errors go to stderr, `err`."""
    renders = {"report/render.py", "report/table.py", "runtime/screen.py", "runtime/progress.py"}
    found = []
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if name not in renders and "rich" in text:
            found += [f"{name}: {module}" for module in modules(path) & {"rich", "rich.console", "rich.table"}]
        for node in ast.walk(ast.parse(text)) if "print" in text or ".write" in text else ():
            match node:
                case ast.Call(func=ast.Name(id="print")):
                    found.append(f"{name}: print")
                case ast.Call(func=ast.Attribute(value=whose, attr="print")):
                    if name not in renders and ast.unparse(whose) != "err":
                        found.append(f"{name}: {ast.unparse(whose)}.print")
                case ast.Call(func=ast.Attribute(value=ast.Attribute() as whose, attr="write")):
                    if ast.unparse(whose) in ("out.file", "sys.stdout") and name != "cli/common.py":
                        found.append(f"{name}: {ast.unparse(whose)}.write")
                case ast.FunctionDef(name=called) if called.startswith("print_") and called != "print_document":
                    found.append(f"{name}: {called}")
    assert not found, "give it a `document`, and show that: report/documents/"


def test_every_module_can_be_imported() -> None:
    for path in FILES:
        name = ".".join(("holdfast", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if path.stem != "__main__":
            import_module(name)


def test_no_module_takes_the_name_of_what_its_package_offers() -> None:
    """The first import of `package.name` binds the module in the package, in the place of a function of that name."""
    clashes = set()
    for path in ROOT.rglob("__init__.py"):
        package = ".".join(("holdfast", *path.parent.relative_to(ROOT).parts)).removesuffix(".")
        below = {child.stem for child in path.parent.iterdir()} - {"__init__"}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                clashes |= {f"{package}.{node.name}"} if node.name in below else set()
            elif isinstance(node, ast.ImportFrom) and node.module != package:
                offered = {alias.asname or alias.name for alias in node.names}  # safe from the module of that name
                clashes |= {f"{package}.{name}" for name in offered & below if node.module != f"{package}.{name}"}
    assert not clashes, "call the module otherwise: medians.py for median"
