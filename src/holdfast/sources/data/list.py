"""Pictures that a text file lists, with their classes: how ImageNet-LT and others say what is in them."""

import re
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
from typing_extensions import override

from holdfast.core import ImageSource
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, finish, take
from holdfast.runtime.doors import read_text
from holdfast.runtime.errors import BadData, os_reason
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.pictures import decode, shape_in


@dataclass(frozen=True)
class ListSource(DataSource):
    """Pictures that a text file lists, with their classes."""

    about = "a text file of pictures, a path and a class in each line; list:FILE?root=FOLDER, as ImageNet-LT"

    def open(self, name: str, options: Options) -> "Listed":
        """Open `list:FILE?root=FOLDER`."""
        root = take(options, "root", str, None)
        finish(options)
        return Listed(name, root)


class Listed(ImageSource):
    """The pictures of a text file, one a line: a path, a space, the number of the class.

    Ids are the paths as they stand there; nothing but the list is read before it is asked for.

    Args:
        path: the list, such as ImageNet_LT_train.txt.
        root: the folder that its paths begin in; that of the list, where None.

    Raises:
        HoldfastError: a file that cannot be read, no line, or one that is none of these, by its number.
    """

    concurrent = True

    def __init__(self, path: str | Path, root: str | Path | None = None):
        self.path, self.root = Path(path), Path(path).parent if root is None else Path(root)
        try:
            lines = read_text(self.path).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = os_reason(error) if isinstance(error, OSError) else "it is not text in UTF-8"
            raise BadData(f"cannot read the list of images {str(path)!r}: {reason}") from error
        self._lines = [self._line(number, text) for number, text in enumerate(lines, 1) if text.strip()]
        if not self._lines:
            raise BadData(f"{str(path)!r}: expected a path and a class in each line, got an empty list")

    def __len__(self) -> int:
        return len(self._lines)

    def __str__(self) -> str:
        return f"list {self.path.name}: {len(self)} images"

    def id(self, index: int) -> str:
        """Return the path as the list has it."""
        return self._lines[index][0]

    @override
    def load(self, index: int) -> PIL.Image.Image:
        return decode(self.root / self.id(index), self.id(index))

    def shape(self, index: int) -> tuple[int, int, int]:
        """Return the shape of the picture, which is not decoded for it."""
        return shape_in(self.root / self.id(index))

    def label(self, index: int) -> int | None:
        """Return the class that the list says."""
        return class_number(self._lines[index][1], f"{self}, image {self.id(index)!r}")

    def _line(self, number: int, text: str) -> tuple[str, int]:
        name, _, label = text.strip().rpartition(" ")
        if not name.strip() or not re.fullmatch("-1|[0-9]{1,18}", label):
            raise BadData(
                f"{str(self.path)!r}, line {number}: expected a path, a space and the number of a class (-1 for none), "
                f"got {text!r}"
            )
        return name.strip(), int(label)
