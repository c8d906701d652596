"""Where data come from: what stands before the ":" of a data spec."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from holdfast.core.image_source import ImageSource
from holdfast.core.source_spec import Options
from holdfast.runtime.checked import Checked


class DataSource(metaclass=Checked):
    """A kind of data that a spec names, such as a folder, a file format or a store of your own; a frozen dataclass.

    Its name stands before the ":" of a spec string: `list:FILE?root=FOLDER` is opened by the part "list".

    Attributes:
        about: what it reads, with its options, in one line.
        extra: the extra of `pip install '.[extra]'` that it needs.
        suffixes: files that end so need no source before them.
        bare: whether its name alone is a whole spec, as "digits" is; what stands behind the ":" is then "".
    """

    about: ClassVar[str]
    extra: ClassVar[str | None] = None
    suffixes: ClassVar[tuple[str, ...]] = ()
    bare: ClassVar[bool] = False

    @abstractmethod
    def open(self, name: str, options: Options) -> ImageSource:
        """Open images.

        Args:
            name: what stands between the ":" and the "?" of the spec string.
            options: what stands behind the "?", without those that all data take, such as size; each is read with
                `take`, and `finish` refuses the rest before anything is read.

        Raises:
            HoldfastError: an unknown name or option, an absent package, images that are not there.
        """

    def names(self) -> Iterable[str]:
        """Return names that this source opens, with the options that they need, for "did you mean"."""
        return ()

    def runs(self, name: str, options: Options) -> str:
        """Return what code a spec runs beside that of installed packages, in a few words; "" where it runs none."""
        return ""
