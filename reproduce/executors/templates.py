"""The placeholders in a world's arguments and variables."""

from reproduce.errors import UsageError

Parts = tuple[str, ...]
"""Text and names of placeholders in turn; text comes first and last."""


def parsed(template: str) -> Parts:
    """The parts of a template; doubled braces are literal ones.

    Raises:
        UsageError: a brace is neither doubled nor part of a placeholder.
    """
    parts, rest = [""], template
    while rest:
        at = min((i for i in (rest.find("{"), rest.find("}")) if i >= 0), default=len(rest))
        parts[-1] += rest[:at]
        brace, rest = rest[at : at + 2], rest[at:]
        if brace in {"{{", "}}"}:
            parts[-1] += brace[0]
            rest = rest[2:]
        elif brace:
            name, closing, rest = rest[1:].partition("}")
            if brace[0] == "}" or not closing or not name.isidentifier():
                raise UsageError(
                    f"a single brace in `{template}` is not part of a placeholder",
                    hint="double a brace that is meant literally",
                )
            parts += [name, ""]
    return tuple(parts)
