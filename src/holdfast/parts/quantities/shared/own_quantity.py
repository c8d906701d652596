"""A quantity that is a function of a user's own, of clean representations and of those of the same images disturbed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Subject, Table
from holdfast.core.function_part import FunctionPart, measure_values, name_function, part_of
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.statistics.statistic import Mean, Median, Share, Statistic
from holdfast.runtime.checked import check_arguments

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class OwnQuantity(FunctionPart, Quantity):
    """A function of (f(x), f(x')).

    Table, one row per disturbed image: `value`.

    Attributes:
        code: the fingerprint of the function.
    """

    code: str = ""

    statistic: ClassVar[Literal["mean", "median", "share"]] = "mean"
    per_image = "value"

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return the function's value for every disturbed image.

        Raises:
            HoldfastError: anything else than one finite number for each image, the same when it is called again; values
                that are no shares where shares are told.
        """
        return {
            f"value@{name}": measure_values(self, (clean[: len(reps)].float(), reps.float()), self.statistic, self.unit)
            for name, reps in moved.items()
        }

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return its `statistic`."""
        values = table[f"value@{name}"]
        match self.statistic:
            case "mean":
                return Mean(values, most=1.0 if self.unit == "share" else None)
            case "median":
                return Median(values)
            case "share":
                return Share(values)


@overload
def quantity(function: Function, **options: Any) -> Function: ...
@overload
def quantity(function: None = None, **options: Any) -> Callable[[Function], Function]: ...
@check_arguments
def quantity(
    function: Function | None = None,
    *,
    name: str | None = None,
    better: Literal["lower", "higher"] = "lower",
    unit: Literal["share", "ratio", "similarity", "pixels"] = "ratio",
    statistic: Literal["mean", "median", "share"] = "mean",
    question: str | None = None,
    how_to_read: str | None = None,
) -> Any:
    """Register a function as a quantity: what is asked of a disturbed image, whatever disturbed it.

        @holdfast.quantity
        def turned(clean, moved):
            return 1 - torch.cosine_similarity(clean, moved)

        record = holdfast.audit(model, images, measures=["turned under jpeg", "turned under linf[radius=4/255]"])

    The function stays what it is; commands take it from a file, by --parts.

    Args:
        function: maps clean representations [N, D] and those of the same images disturbed [N, D] to one value per image
            [N], both float32.
        name: of the quantity; that of the function where None, "own_quantity" for a lambda.
        better: which values are more robust.
        unit: of the values; shares are from 0 to 1.
        statistic: the score, with its interval: the mean or the median over images, or the share of values that are 1,
            the others being 0.
        question: what it asks, in one sentence.
        how_to_read: what its values mean.

    Raises:
        HoldfastError: a name that is taken, or one that cannot be written in commands.
    """
    if function is None:
        # Used as a decorator with arguments: the options wait for the function
        options = {key: value for key, value in locals().items() if key != "function"}
        return lambda function: quantity(function, **options)
    called = name_function(function, name, "own_quantity")
    part_of(
        "quantities",
        OwnQuantity,
        function,
        called,
        better=better,
        # Of values 0 and 1 the statistic is a share, whatever was said
        unit="share" if statistic == "share" else unit,
        statistic=statistic,
        question=question or f"What does {called} return for a disturbed image?",
        how_to_read=how_to_read or f"The {statistic} over images of what {called} returns; {better} is more robust.",
        reference=f"the function {called} of {getattr(function, '__module__', None)}",
    )
    return function
