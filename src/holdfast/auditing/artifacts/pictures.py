"""Pictures that an audit leaves: of what observations show, and of the least and the most robust images."""

import msgspec
from torch import Tensor

from holdfast.auditing.plan import CLEAN
from holdfast.auditing.session import Session
from holdfast.core import Album, Measure, Observation, Table
from holdfast.storage.entry import as_json
from holdfast.storage.pictured import Extreme, Extremes
from holdfast.storage.run_folder import Store

EXTREMES = 6


def select_pictured(session: Session) -> list[tuple[Observation, int]]:
    """Return the observations that leave pictures, and how many of the same kind come before each."""
    kinds: dict[str, list[Observation]] = {}
    for observation in session.costs:
        if observation.shows:
            kinds.setdefault(observation.shows, []).append(observation)
    if "gallery" in kinds:
        kinds["gallery"] = [max(kinds["gallery"], key=lambda observation: observation.passes.total)]
    return [(observation, number) for chosen in kinds.values() for number, observation in enumerate(chosen)]


def album(store: Store, session: Session, slug: str, number: int = 0, readers: tuple[str, ...] = ()) -> Album:
    """Return what an observation is given to leave pictures in, see `Album`."""
    clean = session.read(CLEAN)["reps"]

    def picture(position: int) -> Tensor:
        return session.images.batch(position, position + 1)[0].cpu()

    known = (session.seed, session.ids, session.labels, clean, session.attacked)
    return Album(store, slug, number, readers, *known, picture, session.encoder.grid)


def write_extremes(measure: Measure, name: str, table: Table, album: Album) -> Extremes:
    """Write pictures of the images that are least and most robust by a measure; return the record's entry."""
    values = table[measure.shown_by[0]]
    order = values.argsort(stable=True)[: int((~values.isnan()).sum())]
    count = min(EXTREMES, len(order) // 2)
    entries: dict[str, list[Extreme]] = {}
    for side, positions in (("least", order[:count]), ("most", order.flip(0)[:count])):
        entries[side] = []
        for position in positions.tolist():
            file = f"pictures/{album.slug}/radius-{position}.png"
            album.files.write_picture(file, album.picture(position))
            values_of = {column: float(table[column][position]) for column in measure.shown_by}
            shown = {"id": album.ids[position], "picture": file, **as_json(values_of)}
            entries[side].append(msgspec.convert(shown, Extreme))
    return Extremes(measure=name, **entries)
