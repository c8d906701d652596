"""What of the optional packages is installed and works here."""

import importlib
import warnings
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from holdfast.runtime.errors import first_line, format_install
from holdfast.runtime.torchvision_guard import guard_torchvision

_PACKAGES = {  # module -> (distribution, extra)
    "torchvision": ("torchvision", "torchvision"),
    "timm": ("timm", "timm"),
    "transformers": ("transformers", "hf"),
    "open_clip": ("open_clip_torch", "openclip"),
    "onnx": ("onnx", "onnx"),
    "onnxruntime": ("onnxruntime", "onnx"),
    "datasets": ("datasets", "datasets"),
    "faiss": ("faiss-cpu", "faiss"),
    "accelerate": ("accelerate", "train"),
    "lightly": ("lightly", "train"),
    "starlette": ("starlette", "view"),
    "uvicorn": ("uvicorn", "view"),
}


_ADVICE = {
    "broken": ("to repair what is broken, type in the checkout", "--force-reinstall "),
    "missing": ("ready; for what is missing, type in the checkout", ""),
}
"""What to type where a package is of this status, the worst first."""


def doctor() -> list[tuple[str, str, str]]:
    """Return (package, "ok" | "missing" | "broken", detail or what to do) for torch and every optional package."""
    devices = f"CUDA {torch.version.cuda}" if torch.cuda.is_available() else "CPU only"
    return [("torch", "ok", f"{torch.__version__}, {devices}"), *(_examine(name) for name in _PACKAGES)]


def advise(findings: list[tuple[str, str, str]]) -> tuple[str, str]:
    """Return that all is ready and "", or why to type something and what; some sources alone need absent packages."""
    extras = {status: [_PACKAGES[name][1] for name, found, _ in findings if found == status] for status in _ADVICE}
    for status, (why, how) in _ADVICE.items():
        if extras[status]:
            return why, format_install(",".join(dict.fromkeys(extras[status])), how)
    return "ready", ""


def _examine(name: str) -> tuple[str, str, str]:
    distribution, extra = _PACKAGES[name]
    # What is absent is not imported: that would look broken
    if find_spec(name) is None:
        return name, "missing", format_install(extra)
    guarded = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if guard_torchvision() and name == "torchvision":
                guarded = (
                    f"; its compiled operators do not load beside torch {torch.__version__}: builds for CPU and CUDA "
                    "are mixed. All that Holdfast needs works; where your own scripts cannot import timm or Lightning, "
                    "install torch and torchvision from one index, both with +cpu or both without"
                )
            importlib.import_module(name)
    except Exception as error:  # a broken package may raise anything, and naming it is the point
        return name, "broken", f"{first_line(error)}; try: {format_install(extra, '--force-reinstall ')}"
    try:
        return name, "ok", version(distribution) + guarded
    except PackageNotFoundError:
        return name, "ok", "version unknown" + guarded
