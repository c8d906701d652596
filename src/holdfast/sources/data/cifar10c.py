"""CIFAR-10-C, and other sets of the same form: arrays of a test set that were corrupted once for everybody."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options
from holdfast.runtime.errors import BadData
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.shared.array_file import map_array
from holdfast.sources.data.shared.corrupted import SEVERITIES, load_severity, take_corruption

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class Cifar10cSource(DataSource):
    """The images of CIFAR-10-C under one corruption, with the ids that CIFAR-10's test set has.

    The folder holds NAME.npy, uint8 [5 N, 32, 32, 3] (N = 10,000; severity after severity), and labels.npy, [5 N]. It
    stays on disk. Other sets of the same form, such as CIFAR-100-C, have no names of classes.
    """

    about = "CIFAR-10-C, cifar10c:FOLDER?corruption=fog&severity=3; labels and ids are those of CIFAR-10"

    def open(self, name: str, options: Options) -> Arrays:
        """Open `cifar10c:FOLDER?corruption=fog&severity=3`.

        Raises:
            HoldfastError: files that are not there or of another form, or a severity outside 1 to 5.
        """
        corruption, severity = take_corruption(options, "cifar10c")
        images = load_severity(name, corruption, severity)
        labels, folder = map_array(Path(name) / "labels.npy"), Path(name).name
        # Either once for all severities, or once for each
        counts = (len(images), SEVERITIES * len(images))
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) not in counts:
            raise BadData(
                f"{name}/labels.npy: expected {SEVERITIES * len(images)} whole numbers, got {labels.dtype} "
                f"{list(labels.shape)}; take the file of the benchmark"
            )
        # Every severity has the images, and so the labels, in one order
        own = labels[: len(images)]
        # Names are those of ten classes; files of other sets have more
        classes = CIFAR10 if len(own) and own.max() < len(CIFAR10) else ()
        return Arrays(images, own, layout="NHWC", name=f"{corruption} {severity} of {folder}", classes=classes)
