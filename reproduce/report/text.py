"""Text by strangers, made safe to show."""

import re
import unicodedata

JOINERS = frozenset("\u200c\u200d")
"""Format characters that scripts and emoji need; they move nothing and hide nothing."""

REPLACEMENT = "\ufffd"

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
"""Control sequences of ECMA-48 with what they carry, such as the address of a hyperlink."""

_SPACED = frozenset("\t\n\v\f\r\x85\u2028\u2029")
_DROPPED = frozenset({"Cc", "Cf"})


class Drawn(str):
    """Text of ours in which each part by a stranger was made printable; it may hold colours."""

    __slots__ = ()


def printable(text: str, *, lines: bool = False) -> str:
    """The text without control sequences, control characters and bidirectional controls.

    Line breaks and tabs become spaces; with `lines` line feeds and tabs stay. Half of a
    surrogate pair, which no encoding can write, becomes the replacement character.
    """
    bare = _SEQUENCES.sub("", text)
    if lines:
        bare = bare.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(_shown(char, lines=lines) for char in bare)


def one_line(text: str, *, limit: int | None = None) -> str:
    """The printable text with runs of white space as one space, cut at `limit` with a mark."""
    joined = " ".join(printable(text).split())
    if limit is None or len(joined) <= limit:
        return joined
    return joined[: limit - 1] + "…"


def _shown(char: str, *, lines: bool) -> str:
    if " " <= char <= "~":
        return char
    if char in _SPACED:
        return char if lines and char in "\n\t" else " "
    category = unicodedata.category(char)
    if category == "Cs":
        return REPLACEMENT
    return "" if category in _DROPPED and char not in JOINERS else char
