"""No file is opened but through the doors: the source is read for calls that would open one by themselves."""

import ast
from pathlib import Path

import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent

OPENS = {
    "open", "os.open", "io.open", "gzip.open", "gzip.decompress", "bz2.open", "lzma.open", "zipfile.ZipFile",
    "tarfile.open", "PIL.Image.open", "Image.open", "np.load", "np.loadtxt", "np.fromfile", "np.memmap", "np.save",
    "np.savez", "npy.open_memmap", "safe_open", "load_file", "save_file", "safetensors.torch.load_file",
    "safetensors.torch.save_file", "torch.load",
    "torch.save", "onnx.load", "onnx.save", "pq.read_table", "pq.read_metadata", "pq.ParquetFile", "pq.ParquetWriter",
    "pq.write_table", "pa.memory_map", "pa.OSFile", "os.replace", "os.rename", "shutil.copy", "shutil.copyfile",
    "shutil.move", "tempfile.mkstemp", "json.load", "tomllib.load",
}  # fmt: skip
"""Functions that open a file by its path, or write one."""

METHODS = {
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "touch",
    "rename",
    "replace_with",
    "symlink_to",
    "hardlink_to",
}
"""Methods of a path that do; `open` and `save` where their arguments are those of a file."""

CHECKED = {"regular", "opened", "open_picture", "open_tensors", "BytesIO"}
"""What may stand inside of the call: a path that a door has looked at, or bytes."""

RESULTS = {"store", "folder", "target", "self", "files", "_files"}
"""What has methods of these names that are doors: stores and folders."""

ALLOWED = {
    "runtime/doors.py": "the door for what is read",
    "storage/outputs.py": "the door for what somebody named",
    "storage/filesystem.py": "the door for what is written inside a folder",
    "storage/claim.py": "locks, which are opened to be written, and never through a link",
    "runtime/streams.py": "standard streams, and os.devnull in their place",
    "runtime/screen.py": "os.devnull in the place of a stream that broke",
    "runtime/names.py": "Holdfast's own source",
    "runtime/outline.py": "Holdfast's own source",
    "report/profile_page.py": "a file of the package",
    "report/bibliography.py": "a file of the package",
    "report/evidence.py": "a file of the package",
    "report/references.py": "a file of the package",
    "sources/data/digits.py": "a file of scikit-learn",
    "cli/__init__.py": "the traceback of a fault, in a new file",
    "workflows/reproduce/rehearse.py": "images of a rehearsal, in its own temporary folder",
    "sources/onnx/compare.py": "a model in its own temporary folder",
    "sources/onnx/reader.py": "an empty file that says what was compared, in the cache",
    "training/checkpoint.py": "writes what Store.write has given it",
    "training/log.py": "writes what Store.write has given it",
    "comparison/exports.py": "writes what write_file has given it",
    "storage/run_folder.py": "writes what Store.write has given it",
    "sources/encoders/shared/copies.py": "writes what Store.write has given it",
    "sources/encoders/onnx.py": "writes what Store.write has given it",
    "workflows/exchange/onnx_file.py": "writes what write_file has given it",
    "workflows/embed_names.py": "writes what write_file has given it",
    "workflows/embed_captions.py": "writes what write_file has given it",
    "report/paper/figure.py": "writes what write_file has given it",
    "parts/learners/given.py": "writes what Store.write has given it",
    "parts/threats/mixture.py": "writes what Store.write has given it",
    "sources/data/shared/rows_on_disk.py": "a temporary file of its own",
}
"""Files that open others by themselves, and why they may."""


def _is_door(owner: str) -> bool:
    return owner.startswith("Store(") or owner.rpartition(".")[2] in RESULTS


def bypasses(text: str) -> list[str]:
    """Return the calls in a source that open a file without a door."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in OPENS and not _calls(node) & CHECKED:
            found.append(f"line {node.lineno}: {name}")
        elif isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            mode = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
            as_file = node.func.attr == "open" and (
                (bool(mode) and isinstance(mode[0], str) and set(mode[0]) <= set("rwaxbt+"))
                or {"encoding", "newline"} & {keyword.arg for keyword in node.keywords}
            )
            if as_file or (node.func.attr in METHODS and not _is_door(owner)):
                found.append(f"line {node.lineno}: .{node.func.attr}")
    return found


def _calls(node: ast.AST) -> set[str]:
    """Return the last names of all that is called in a piece of code."""
    return {ast.unparse(call.func).rpartition(".")[2] for call in ast.walk(node) if isinstance(call, ast.Call)}


FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def test_nothing_passes_by_the_doors() -> None:
    found = {name: bypasses((SOURCE / name).read_text(encoding="utf-8")) for name in FILES if name not in ALLOWED}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_who_needs_no_leave_has_none(name: str) -> None:
    assert bypasses((SOURCE / name).read_text(encoding="utf-8")) != []


@pytest.mark.parametrize(
    "text",
    ["open(path)", "path.open('rb')", "path.open(encoding='utf-8')", "path.read_text()", "Path(name).write_bytes(b'')",
     "PIL.Image.open(path)", "np.load(path)", "safe_open(path, 'pt')", "gzip.open(path)", "pq.read_table(path)",
     "torch.load(path)", "tarfile.open(path)", "os.replace(a, b)"],
)  # fmt: skip
def test_a_new_bypass_is_found(text: str) -> None:
    assert len(bypasses(text)) == 1


def test_what_a_door_has_looked_at_is_none() -> None:
    assert not bypasses("pq.read_table(regular(path)); pq.ParquetFile(io.BytesIO(data)); source.open(name, options)")
