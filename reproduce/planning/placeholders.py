"""The placeholders of a command and its variables, checked before anything is sealed."""

import re

from reproduce.errors import UsageError
from reproduce.planning.messages import nearest

KNOWN = ("out", "seed", "trial", "tmp", "python")
"""What a command or a variable may name in braces; literal braces are doubled."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def check_placeholders(text: str, *, place: str) -> None:
    """Refuses a template with an unknown placeholder or a single brace.

    Raises:
        UsageError: names the place, what was found and how to write it.
    """
    for found in _TOKEN.finditer(text):
        token = found.group()
        if token in {"{{", "}}"}:
            continue
        if token in {"{", "}"}:
            message = f"a single `{token}` in `{text}`"
            raise UsageError(message, place=place, hint=f"write `{token * 2}` for a literal brace")
        if found.group(1) not in KNOWN:
            message = f"no placeholder is called `{token}`"
            hint = f"{nearest(found.group(1), KNOWN)} Literal braces are doubled"
            raise UsageError(message, place=place, hint=hint)


def fill_python(text: str, python: str) -> str:
    """The template with `{python}` filled in; all other placeholders stay."""
    quoted = python.replace("{", "{{").replace("}", "}}")
    return _TOKEN.sub(lambda found: quoted if found.group() == "{python}" else found.group(), text)


def unescaped(text: str) -> str:
    """A template without placeholders as the child gets it."""
    return text.replace("{{", "{").replace("}}", "}")
