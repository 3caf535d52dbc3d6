"""What `fedspca site` and `fedspca study` share: a page that is opened in the browser, a unit that is written."""

import os
from collections.abc import Callable
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from fedspca.cli.output import console, notes

Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser, or print the address.")]
Port = Annotated[int, typer.Option("--port", help="A port of this machine; by default a free one.")]


def show_page(make: Callable[[], Any], *, browser: bool, port: int) -> None:
    """Serve a page until Ctrl-C, and open it."""
    try:
        from fedspca.study.page import open_page

        page = make()
    except ImportError as error:
        raise ValueError(f"The page needs Flower and Starlette ({error}): pip install 'fedspca[flower]'") from None

    with TemporaryDirectory(prefix="fedspca-open-", dir=_home()) as folder:

        def tell(address: str) -> None:
            console().print(address, soft_wrap=True)
            notes().print("The address can be used once, on this machine. Ctrl-C ends the page.", soft_wrap=True)
            import webbrowser

            if browser and not webbrowser.open(opener(Path(folder), address).as_uri()):
                notes().print("No browser was found here: open the address yourself.", soft_wrap=True)

        open_page(page, tell, port)


def opener(folder: Path, address: str) -> Path:
    """Write a file that leads a browser to an address, and that only this account can read.

    The address itself would stand in the browser's command line, which every account of the machine can read; whoever
    was quicker than the browser could use it.
    """
    path = folder / "open.html"
    path.touch(mode=0o600)
    path.write_text(f'<meta http-equiv="refresh" content="0;url={escape(address)}">', encoding="utf-8")
    return path


def _home() -> Path | None:
    """Browsers in a sandbox see the home folder and not the machine's folder of temporary files."""
    return Path.home() if os.access(Path.home(), os.W_OK) else None


def write_service(service: Any, folder: Path) -> None:
    """Write a unit, and say how to install it."""
    from fedspca.files import new_file

    with new_file(folder / service.name) as draft:
        draft.write_text(service.text, encoding="utf-8")
    console().print(f"Wrote {folder / service.name}. Install it with:", soft_wrap=True)
    for line in service.install:
        console().print(f"  {line}", soft_wrap=True)
