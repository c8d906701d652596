"""The files of CIFAR-10-C and ImageNet-C: images of a test set that were corrupted once for everybody."""

from pathlib import Path

import numpy as np

from holdfast.core.source_spec import Options, finish, take
from holdfast.runtime.checked import integer
from holdfast.runtime.errors import BadData, BadValue, Missing, unknown
from holdfast.runtime.guess import path_meant
from holdfast.sources.data.shared.array_file import map_array

SEVERITIES = 5


def take_corruption(options: Options, source: str) -> tuple[str, int]:
    """Take the corruption and the severity that a spec of stored corruptions names.

    Raises:
        HoldfastError: one of them is not there, or no option of these.
    """
    corruption, severity = take(options, "corruption", str, None), take(options, "severity", integer, None)
    if corruption is None or severity is None:
        raise Missing(f"expected {source}:FOLDER?corruption=fog&severity=3, got no corruption or no severity")
    finish(options)
    return corruption, severity


def load_severity(folder: str | Path, corruption: str, severity: int) -> np.ndarray:
    """Return the images of one severity, uint8 [N, H, W, C], of a file that stays on disk; see `Cifar10cSource`."""
    _check(folder, severity)
    file = Path(folder) / f"{corruption}.npy"
    if not file.exists():
        raise unknown(f"corruption in {str(folder)!r}", corruption, _names(Path(folder)))
    held = map_array(file)
    if held.dtype != np.uint8 or held.ndim != 4 or held.shape[3] not in (1, 3) or len(held) % SEVERITIES:
        raise BadData(
            f"{str(file)!r}: expected uint8 [5 N, H, W, 1 or 3], five severities one after the other, got {held.dtype} "
            f"{list(held.shape)}; take the file of the benchmark"
        )
    count = len(held) // SEVERITIES
    # A view of the file, severity after severity
    return held[(severity - 1) * count : severity * count]


def pictures(folder: str | Path, corruption: str, severity: int) -> Path:
    """Return the folder of pictures of one corruption and severity, see `ImagenetcSource`."""
    _check(folder, severity)
    # In the folder itself, or in one of ImageNet-C's groups, such as "noise"
    for place in (Path(folder), *sorted(Path(folder).iterdir())):
        if (inside := place / corruption / str(severity)).is_dir():
            return inside
    raise unknown(f"corruption in {str(folder)!r}", corruption, _names(Path(folder)))


def _check(folder: str | Path, severity: int) -> None:
    if not Path(folder).is_dir():
        raise Missing(f"expected a folder of corrupted images, found none at {str(folder)!r}; {path_meant(folder)}")
    if not 1 <= severity <= SEVERITIES:
        raise BadValue(f"severity: expected 1 (mild) to {SEVERITIES}, got {severity}")


def _names(folder: Path) -> list[str]:
    """Return the corruptions that a folder holds."""
    arrays = [file.stem for file in folder.glob("*.npy") if file.stem != "labels"]
    # Folders that have a severity 1, directly or in a group
    return sorted({*arrays, *(inner.parent.name for deep in ("*/1", "*/*/1") for inner in folder.glob(deep))})
