"""What `fedspca site` and `fedspca study` share: a page that is opened in the browser, a unit that is written."""

from collections.abc import Callable
from pathlib import Path
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

    def tell(address: str) -> None:
        console().print(address, soft_wrap=True)
        notes().print("The address can be used once, on this machine. Ctrl-C ends the page.", soft_wrap=True)
        import webbrowser

        if browser and not webbrowser.open(address):
            notes().print("No browser was found here: open the address yourself.", soft_wrap=True)

    open_page(page, tell, port)


def write_service(service: Any, folder: Path) -> None:
    """Write a unit, and say how to install it."""
    from fedspca.files import new_file

    with new_file(folder / service.name) as draft:
        draft.write_text(service.text, encoding="utf-8")
    console().print(f"Wrote {folder / service.name}. Install it with:", soft_wrap=True)
    for line in service.install:
        console().print(f"  {line}", soft_wrap=True)
