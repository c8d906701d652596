"""The options that every encoder source understands after the `?` of a spec string."""

from dataclasses import dataclass, field

from holdfast.core.source_spec import Options, finish, one_of, sides, take
from holdfast.runtime.checked import integer, number
from holdfast.runtime.errors import Conflict, Missing, UnknownName
from holdfast.sources.encoders.shared.layer import POOLS
from holdfast.sources.encoders.shared.pictures import PictureWords, picture_words


@dataclass(frozen=True)
class Common:
    """Options common to all sources.

    Attributes:
        name: how the encoder is called: `label=`, or the spec as typed.
        weights: "default" (the source's own), "random", or the path of a safetensors file.
        seed: seed of random weights.
        layer: dotted module whose output (or, with ".input", input) is the representation.
        pool: how that becomes one vector per image, see `POOLS`.
        grid: rows and columns of patches, where `pool` leaves them apart and a layer's output does not tell.
        mean: per-channel mean in [0, 1] pixels, overriding the source's; given together with `std`.
        std: per-channel standard deviation.
        pictures: how pictures become the input, overriding what the source says.
    """

    name: str
    weights: str = "default"
    seed: int = 0
    layer: str | None = None
    pool: str | None = None
    grid: tuple[int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    pictures: PictureWords = field(default_factory=PictureWords)

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of the input, overriding the source's."""
        return self.pictures.size


def read(options: Options, pools: tuple[str, ...] = tuple(POOLS), takes: tuple[str, ...] | None = None) -> Common:
    """Take the common options; the source has taken its own before.

    Args:
        options: what stood behind the `?`.
        pools: words that `pool=` accepts.
        takes: those of "weights", "seed", "layer", "pool", "grid", "mean", "std" and `PICTURES` that the source obeys;
            None: all, as `assemble` does.

    Raises:
        HoldfastError: an option that nobody knows ("did you mean") or that the source does not obey, a value that
            cannot be read, mean without std, words about pictures that contradict each other.
    """
    # Before anything is taken, so that all that is ignored is named at once
    if takes is not None and (ignored := [name for name in options if name not in ("label", *takes)]):
        may = ", ".join(("label", *takes))
        raise UnknownName(f"spec {options.spec!r}: this source takes {may}, got {', '.join(ignored)}; leave it out")
    common = Common(
        name=take(options, "label", _label, None) or options.spec,
        weights=take(options, "weights", str, "default"),
        seed=take(options, "seed", integer, 0),
        layer=take(options, "layer", str, None),
        pool=take(options, "pool", one_of(*pools), None),
        grid=take(options, "grid", _grid, None),
        mean=take(options, "mean", _numbers, None),
        std=take(options, "std", _numbers, None),
        pictures=picture_words(options),
    )
    finish(options)  # what is left nobody has asked for
    if (common.mean is None) != (common.std is None):
        raise Missing(f"spec {options.spec!r}: expected mean and std together; mean=0&std=1 for none")
    if common.grid is not None and common.pool != "none":
        raise Conflict(f"spec {options.spec!r}: grid= says where patches lie, expected pool=none with it")
    return common


def _label(text: str) -> str:
    if len(text) > 80 or not text.isprintable():
        raise ValueError("expected a label of at most 80 printable characters")
    return text


def _grid(text: str) -> tuple[int, int]:
    wanted = "rows and columns of patches, such as 14x14"
    grid = sides(text, wanted)
    if len(grid) != 2:
        raise ValueError(f"expected {wanted}")
    return grid[0], grid[1]


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(number(part) for part in text.split(","))
