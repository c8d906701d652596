"""ImageNet-C: pictures of a test set that were corrupted once for everybody."""

from dataclasses import dataclass

from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options
from holdfast.sources.data.folder import Folder
from holdfast.sources.data.shared.corrupted import pictures, take_corruption


@dataclass(frozen=True)
class ImagenetcSource(DataSource):
    """The pictures of ImageNet-C under one corruption: NAME/SEVERITY/synset/file, or GROUP/NAME/SEVERITY/….

    Ids are "synset/file", as those of a folder of ImageNet's validation set.
    """

    about = "ImageNet-C, imagenetc:FOLDER?corruption=fog&severity=3; folders NAME/SEVERITY/synset"

    def open(self, name: str, options: Options) -> Folder:
        """Open `imagenetc:FOLDER?corruption=fog&severity=3`.

        Raises:
            HoldfastError: no such folder, no pictures, or a severity outside 1 to 5.
        """
        return Folder(pictures(name, *take_corruption(options, "imagenetc")))
