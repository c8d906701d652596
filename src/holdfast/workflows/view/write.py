"""The viewer as files: the same pages, which open from a disk without a server."""

from collections.abc import Callable
from pathlib import Path

from holdfast.runtime.doors import real
from holdfast.runtime.errors import BadPlace, HoldfastError
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import write_inside
from holdfast.workflows.view.site import INDEX, Site


def write_site(root: Path, out: Path, say: Callable[[str], object]) -> tuple[int, list[str]]:
    """Write all pages of a folder of runs into another folder.

    Returns:
        How many files were written, and a sentence for each that could not be made.
    """
    site, folder = Site(root, live=False), Folder(out)
    if real(out).is_relative_to(site.runs.root):
        raise BadPlace(
            f"--out: expected a folder outside of the viewed one, which is only read, got {str(out)!r} in {str(root)!r}"
        )
    lost: list[str] = []
    written = 0
    for address in site.addresses():
        say(f"writing {address}")
        try:
            page = site.page(address)
        except HoldfastError as error:
            lost.append(f"{address} is left out: {error}")
            continue
        if page is None:
            lost.append(f"{address} is left out: its run changed while the pages were written")
            continue
        write_inside(folder, address, page.content)
        written += 1
    return written, lost


def index_of(out: Path) -> Path:
    """Return the first page of a written site."""
    return out / INDEX
