"""The files of CIFAR-10-C and ImageNet-C: images of a test set that were corrupted once for everybody."""

from pathlib import Path

import numpy as np

from holdfast.runtime.errors import HoldfastError, unknown
from holdfast.runtime.guess import path_meant
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.folder import Folder
from holdfast.sources.data.shared.array_file import map_array

SEVERITIES = 5
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def cifar10c(folder: str | Path, corruption: str, severity: int) -> Arrays:
    """Return the images of CIFAR-10-C under one corruption, with the ids that CIFAR-10's test set has.

    The folder holds NAME.npy, uint8 [5 N, 32, 32, 3] (N = 10,000; severity after severity), and labels.npy, [5 N]. It
    stays on disk. Other sets of the same form, such as CIFAR-100-C, have no names of classes.

    Raises:
        HoldfastError: files that are not there or of another form, or a severity outside 1 to 5.
    """
    images = load_severity(folder, corruption, severity)
    labels = map_array(Path(folder) / "labels.npy")
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) not in (len(images), SEVERITIES * len(images)):
        raise HoldfastError(
            f"{folder}/labels.npy: expected {SEVERITIES * len(images)} whole numbers, got {labels.dtype} "
            f"{list(labels.shape)}; take the file of the benchmark"
        )
    own = labels[: len(images)]
    classes = CIFAR10 if len(own) and own.max() < len(CIFAR10) else ()
    return Arrays(images, own, layout="NHWC", name=f"{corruption} {severity} of {Path(folder).name}", classes=classes)


def imagenetc(folder: str | Path, corruption: str, severity: int) -> Folder:
    """Return the pictures of ImageNet-C under one corruption: NAME/SEVERITY/synset/file, or GROUP/NAME/SEVERITY/….

    Ids are "synset/file", as those of a folder of ImageNet's validation set.

    Raises:
        HoldfastError: no such folder, no pictures, or a severity outside 1 to 5.
    """
    return Folder(pictures(folder, corruption, severity))


def load_severity(folder: str | Path, corruption: str, severity: int) -> np.ndarray:
    """Return the images of one severity, uint8 [N, H, W, C], of a file that stays on disk; see `cifar10c`."""
    _check(folder, severity)
    file = Path(folder) / f"{corruption}.npy"
    if not file.exists():
        raise unknown(f"corruption in {str(folder)!r}", corruption, _names(Path(folder)))
    held = map_array(file)
    if held.dtype != np.uint8 or held.ndim != 4 or held.shape[3] not in (1, 3) or len(held) % SEVERITIES:
        raise HoldfastError(
            f"{str(file)!r}: expected uint8 [5 N, H, W, 1 or 3], five severities one after the other, got {held.dtype} "
            f"{list(held.shape)}; take the file of the benchmark"
        )
    count = len(held) // SEVERITIES
    return held[(severity - 1) * count : severity * count]


def pictures(folder: str | Path, corruption: str, severity: int) -> Path:
    """Return the folder of pictures of one corruption and severity, see `imagenetc`."""
    _check(folder, severity)
    for place in (Path(folder), *sorted(Path(folder).iterdir())):
        if (inside := place / corruption / str(severity)).is_dir():
            return inside
    raise unknown(f"corruption in {str(folder)!r}", corruption, _names(Path(folder)))


def _check(folder: str | Path, severity: int) -> None:
    if not Path(folder).is_dir():
        raise HoldfastError(
            f"expected a folder of corrupted images, found none at {str(folder)!r}; {path_meant(folder)}"
        )
    if not 1 <= severity <= SEVERITIES:
        raise HoldfastError(f"severity: expected 1 (mild) to {SEVERITIES}, got {severity}")


def _names(folder: Path) -> list[str]:
    """Return the corruptions that a folder holds."""
    arrays = [file.stem for file in folder.glob("*.npy") if file.stem != "labels"]
    return sorted({*arrays, *(inner.parent.name for deep in ("*/1", "*/*/1") for inner in folder.glob(deep))})
