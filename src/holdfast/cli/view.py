"""holdfast view: all runs below a folder in a browser."""

import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.common import err, listening, out, partly, warn
from holdfast.runtime.privacy import brief


def view(
    folder: Annotated[str, typer.Argument(help="Folder that contains run folders, at any depth; it is only read.")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0: any free port. (default: 8000, or the next free one)")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. With any other than 127.0.0.1, other machines can connect.")
    ] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the first page in a browser.")] = True,
    out_folder: Annotated[
        str | None, typer.Option("--out", help="Write the pages into this folder instead: they open without a server.")
    ] = None,
) -> None:
    """Show all runs below a folder in a browser: reports, running audits, images side by side across encoders."""
    from holdfast.report.document import Verbatim
    from holdfast.report.render import print_document
    from holdfast.storage.filesystem import local_folder
    from holdfast.workflows.view.server import Server, is_local

    root = local_folder(folder, "the viewed folder")
    if out_folder is not None:
        _write(root, local_folder(out_folder))
        return
    if not is_local(host):
        warn("warning:", f"whoever reaches {host} can read these records and pictures; there is no password")

    with suppress(KeyboardInterrupt):  # that is how it ends
        with listening(False) as bars:
            bars.stage(f"reading the records below {brief(folder)}")
            server = Server(root, host, port)
        print_document([Verbatim(f"{server.address} shows {brief(folder)}; Ctrl-C ends it")], out)
        out.file.flush()
        if open_browser:
            webbrowser.open(server.address)
        server.run()
    err.print("the viewer has ended")


def _write(root: Path, out_folder: Path) -> None:
    """Write the pages, and say where they begin."""
    from holdfast.report.document import ToCopy
    from holdfast.report.render import print_document
    from holdfast.workflows.view.write import index_of, write_site

    with listening(False) as bars:
        written, lost = write_site(root, out_folder, bars.stage)
    for line in lost:
        warn(line)
    print_document([ToCopy({f"{written} files": brief(str(index_of(out_folder)))})], out)
    partly(lost, written > 0)
