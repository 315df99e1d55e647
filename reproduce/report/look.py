"""How the terminal is drawn on: width, characters and colour, and the lines that come out."""

import io
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from policies import Status
from reproduce.report.text import Drawn, printable
from reproduce.report.words import MARKS

PIPE_WIDTH = 120
"""Columns where the output is no terminal: a log is read in a wide window."""

LEAST_WIDTH = 40
"""Narrower terminals get lines of this width, which the terminal then wraps itself."""

_ASCII = str.maketrans(
    {
        "·": "-",
        "–": "-",
        "—": "-",
        "…": "...",
        "≥": ">=",
        "≤": "<=",
        "≠": "!=",
        "×": "x",
        "δ": "delta",
        "−": "-",
        "✓": "ok",
        "✗": "no",
        "■": "[#]",
        "▲": "[+]",
        "△": "[~]",
        "◇": "[?]",
        "□": "[0]",
    }
)
"""Our own typography, spelt for encodings that lack it."""

_TIED = "\ue000"
"""Stands for a space at which no line breaks; Rich breaks at the no-break space of Unicode."""

_STYLES = {
    Status.REPRODUCTION_PINNED: "bold green",
    Status.PARTIAL: "bold yellow",
    Status.WEAK_SIGNAL: "bold yellow",
    Status.UNRESOLVED: "bold magenta",
    Status.NOT_REPRODUCED: "bold blue",
}


class Look(NamedTuple):
    """How to draw: the width in columns, whether beyond ASCII, whether in colour."""

    width: int = PIPE_WIDTH
    unicode: bool = True
    colour: bool = False

    def say(self, text: str) -> str:
        """The text as this terminal can show it: printable, and in ASCII where it must be."""
        shown = printable(text)
        if self.unicode:
            return shown
        return shown.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")

    def status(self, status: Status) -> Text:
        """The mark of a status and its name."""
        return self.text(f"{MARKS[status]} {status}", _STYLES[status])

    def holds(self, *, holds: bool) -> Text:
        """The mark of a gate."""
        return self.text("✓" if holds else "✗", "green" if holds else "red")

    def text(self, text: str, style: str = "") -> Text:
        """The text, made safe, in a style; where it is longer than the line it wraps."""
        return Text(self.say(text).replace(" %", f"{_TIED}%"), style=style, overflow="fold")


def look_of(
    stream: TextIO,
    environ: Mapping[str, str],
    *,
    colour: str = "auto",
    plain: bool = False,
) -> Look:
    """How to draw on the stream: `colour` is `auto`, `always` or `never`; `plain` means ASCII.

    Under `auto` there is colour on a terminal without `NO_COLOR` and not under `TERM=dumb`.
    """
    terminal = stream.isatty()
    silent = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    painted = colour == "always" or (colour == "auto" and terminal and not silent)
    encoding = (stream.encoding or "ascii").lower().replace("-", "").replace("_", "")
    return Look(
        _width(stream, environ) if terminal else PIPE_WIDTH,
        not plain and encoding == "utf8",
        painted,
    )


def _width(stream: TextIO, environ: Mapping[str, str]) -> int:
    declared = environ.get("COLUMNS", "")
    if declared.isdigit() and int(declared) > 0:
        return max(LEAST_WIDTH, int(declared))
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    return max(LEAST_WIDTH, columns or 80)


def draw(parts: Iterable[RenderableType], look: Look) -> Drawn:
    """The parts below each other as lines of text; escape sequences only under `colour`."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=max(LEAST_WIDTH, look.width),
        force_terminal=look.colour,
        color_system="standard" if look.colour else None,
        no_color=not look.colour,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    for part in parts:
        console.print(part)
    drawn = file.getvalue().replace(_TIED, " ")
    return Drawn("".join(f"{line.rstrip()}\n" for line in drawn.split("\n")[:-1]))


def indent(part: RenderableType, by: int = 2) -> Padding:
    """The part moved to the right."""
    return Padding(part, (0, 0, 0, by))


def item(look: Look, text: str, *, mark: Text | None = None) -> Table:
    """A list item, its mark a dash by default, whose further lines stand below its first."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(mark or Text("-"), look.text(text))
    return table


def columns(look: Look, header: Iterable[str]) -> Table:
    """A table without lines whose header is dim; further lines of a cell stand below it."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for title in header:
        table.add_column(look.text(title), overflow="fold", header_style="dim")
    return table
