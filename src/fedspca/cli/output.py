"""What commands print: names made harmless, tables that read well without colour, JSON for scripts."""

import json
import sys
import unicodedata
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

LONGEST = 60


def visible(text: str) -> str:
    """Return text whose control and direction characters are written out, so that no name can steer a terminal."""
    return "".join(
        c if unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} or c == "\n" else ascii(c)[1:-1]
        for c in text
    )


def sentence(text: str) -> str:
    """Return text with a capital letter and a full stop, where it lacks them; a name in front stays as it is."""
    first = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return f"{first}{text[1:]}{'' if text.endswith(('.', '?', ')')) else '.'}"


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name that fits a table's cell: one line, and its middle left out if it is long."""
    plain = visible(name.replace("\n", "\\n"))
    return plain if len(plain) <= longest else f"{plain[: longest // 2]}…{plain[-(longest // 2 - 1) :]}"


def console() -> Console:
    """Return where results are printed."""
    return Console(highlight=False, markup=False, emoji=False)


def notes() -> Console:
    """Return where remarks and progress are printed, apart from results."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(content: Any) -> None:
    """Print results for scripts."""
    sys.stdout.write(json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n")


def table(*columns: tuple[str, str], title: str | None = None) -> Table:
    """Return a plain table; each column has a heading, and ``left`` or ``right``."""
    made = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for heading, side in columns:
        made.add_column(heading, justify="right" if side == "right" else "left", no_wrap=True)
    return made


def print_table(shown: Table) -> None:
    """Print a table at its full width: a terminal wraps a line that is too long, and a cut key or time is of no use."""
    out = console()
    natural = Measurement.get(out, out.options.update(width=10_000), shown).maximum
    out.width = max(out.width, natural)
    out.print(shown, soft_wrap=True)


def cells(*values: Any) -> list[Text]:
    """Return table cells that are never read as markup."""
    return [Text(short(str(value))) for value in values]
