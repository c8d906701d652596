"""Where encoders come from: what stands before the ":" of a spec string."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from jaxtyping import Float
from torch import Tensor

from holdfast.core.encoder import Encoder
from holdfast.core.source_spec import Options
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import Unsupported

TextTower: TypeAlias = Callable[[Sequence[str]], Float[Tensor, "texts dim"]]
"""Embeds texts, [N, D], in the space of the representations of the encoder that it belongs to."""


@dataclass(frozen=True)
class Destination:
    """Where an encoder sends images.

    Attributes:
        host: who gets them.
        batch: how many a call holds at most; None: any number.
        price: of 1,000 images, in any currency; None: nobody said it.
    """

    host: str
    batch: int | None = None
    price: float | None = None


class EncoderSource(metaclass=Checked):
    """A place that encoders come from, such as a library, a file format or a registry of your own; a frozen dataclass.

    Its name stands before the ":" of a spec string: `timm:resnet18?layer=layer3` is opened by `Timm`.

    Attributes:
        about: what it opens, with an example, in one line.
        extra: the extra of `pip install '.[extra]'` that it needs.
        suffix: paths that end so need no source before them.
        writes: how paths end of the files that `write` makes; None: an encoder that was trained is its weights alone.
        runs: what code of others a spec runs, where it runs any, such as "a Python module".
        differentiable: whether its encoders have a gradient to the pixels, which most searches and all proofs need.
    """

    about: ClassVar[str]
    extra: ClassVar[str | None] = None
    suffix: ClassVar[str | None] = None
    writes: ClassVar[str | None] = None
    differentiable: ClassVar[bool] = True

    @abstractmethod
    def open(self, name: str, options: Options) -> Encoder:
        """Open an encoder.

        Args:
            name: what stands between the ":" and the "?" of the spec string.
            options: what stands behind the "?"; see `holdfast.extend.read_options` for those that all sources take.

        Raises:
            HoldfastError: an unknown name or option, an absent package, weights that cannot be had.
        """

    def check(self, name: str, options: Options) -> None:
        """Raise at once what `open` would of names, options and files, without opening anything; by default nothing.

        Args:
            name: as for `open`.
            options: as for `open`.

        Raises:
            HoldfastError: an unknown name or option, a file or package that is not there.
        """

    def files(self, name: str, options: Options) -> Sequence[Path] | None:
        """Return the files that decide what `open` gives, beside those of installed packages; None: they are not known.

        Where they are known, and have not changed, a whole audit is known to be answered without opening the encoder.

        Args:
            name: as for `open`.
            options: as for `open`.
        """
        return None

    def texts(self, name: str, options: Options) -> "TextTower":
        """Open the text tower that belongs to an encoder: texts as points of the space of its representations.

        Args:
            name: as for `open`.
            options: as for `open`.

        Raises:
            HoldfastError: an encoder without a text tower, and what `open` raises.
        """
        raise Unsupported(
            f"{options.spec}: expected an encoder with a text tower, of openclip: or of hf:, such as "
            "openclip:ViT-B-32/openai; take text embeddings from the tower that belongs to this one"
        )

    def names(self) -> Iterable[str]:
        """Return names that this source opens, for completion and for "did you mean"; none where they are countless."""
        return ()

    def write(self, name: str, options: Options, encoder: Encoder, path: Path) -> None:
        """Write an encoder that was opened here and trained since, as a file of the kind that this source opens.

        Args:
            name: as `open` was given it.
            options: as `open` was given them.
            encoder: with the weights that it has now.
            path: the file.

        Raises:
            HoldfastError: weights that such a file cannot hold.
        """
        raise NotImplementedError

    def sends(self, name: str, options: Options) -> Destination | None:
        """Return to whom images are sent, of a service; None: they stay here."""
        return None

    def runs(self, name: str, options: Options) -> str:
        """Return what code a spec runs beside that of installed packages, in a few words; "" where it runs none."""
        return "code of a repository" if options.get("trust_remote_code", "").lower() in ("true", "yes", "1") else ""
