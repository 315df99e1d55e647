"""Turns what a schema found wrong into one message that names the place, the rule and the way out."""

import difflib
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reproduce.errors import UsageError

_SCHEMA = "see `reproduce schema` for every key"

_RULES = {
    "missing": "a required key is missing",
    "string_type": "text is expected",
    "int_type": "a whole number is expected",
    "bool_type": "`true` or `false` is expected",
    "tuple_type": "a list is expected",
    "dict_type": "a table is expected",
    "model_type": "a table is expected",
    "model_attributes_type": "a table is expected",
    "union_tag_not_found": "the key `kind` is missing",
}

_BOUNDS = {
    "greater_than_equal": ("ge", "at least", "raise"),
    "greater_than": ("gt", "above", "raise"),
    "less_than_equal": ("le", "at most", "lower"),
    "less_than": ("lt", "below", "lower"),
}
"""Rules for numbers: where pydantic keeps the bound, the rule in words, and the way out."""

_EMPTY = ("too_short", "string_too_short")

_NAME_RULE = "a name has up to 64 characters of `a-z`, `0-9`, `_` and `-`"

_UNION = ("str", "GitSource")
"""What pydantic calls the members of our unions in places."""


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint that names the closest known name, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return "known: " + ", ".join(f"`{item}`" for item in known)


def explain(error: ValidationError, schema: type[BaseModel], *, place: str) -> UsageError:
    """The first thing that is wrong, as a person can mend it."""
    details = error.errors(include_url=False)
    # A misspelt key also leaves the right one missing; the misspelling is what to mend. Of the
    # members of a union the one that fits deepest is the one that was meant.
    first = min(details, key=lambda item: (item["type"] != "extra_forbidden", -len(item["loc"])))
    where = ".".join(_steps(first["loc"]))
    message, hint = _words(first, schema)
    return UsageError(message, place=f"{place}: {where}" if where else place, hint=hint)


def _steps(location: tuple[int | str, ...]) -> list[str]:
    """The keys as they stand in the file: without union tags and our own grouping."""
    steps = list(location)
    if steps[:1] == ["symptom"]:
        del steps[1:2]
    elif steps[:1] == ["symptom.*"]:
        steps[0] = "symptom"
        del steps[2:3]
    elif steps[:2] == ["matrix", "factor.*"]:
        del steps[1]
    shown: list[str] = []
    for step in steps:
        if isinstance(step, int) and shown:
            shown[-1] += f"[{step}]"
        elif step != "[key]" and step not in _UNION and not str(step).startswith("tuple["):
            shown.append(str(step))
    return shown


def _words(detail: ErrorDetails, schema: type[BaseModel]) -> tuple[str, str]:
    """What is wrong, and the way out."""
    kind, location = detail["type"], detail["loc"]
    found, context = detail.get("input"), detail.get("ctx", {})
    if kind == "extra_forbidden":
        key = str(location[-1])
        return f"unknown key `{key}`", nearest(key, _known_keys(schema, location[:-1]))
    if kind in {"literal_error", "enum", "union_tag_invalid"}:
        return _choice(found, context)
    if kind in _RULES:
        # What is missing was not found anywhere; the table around it is not news.
        shown = "" if kind in {"missing", "union_tag_not_found"} else f", found {_shown(found)}"
        return _RULES[kind] + shown, _SCHEMA
    if kind in _BOUNDS:
        name, rule, remedy = _BOUNDS[kind]
        message = f"a number of {rule} {context[name]} is expected, found {_shown(found)}"
        return message, f"{remedy} `{_last_key(location)}`"
    if location[-1:] == ("[key]",):
        return f"`{location[-2]}` is not a name", _NAME_RULE
    if kind in _EMPTY:
        return "something is expected, and nothing stands there", f"fill `{_last_key(location)}`"
    message = detail["msg"].removeprefix("Value error, ")
    hint = f"change `{_last_key(location)}`" if location else _SCHEMA
    return f"{message[:1].lower()}{message[1:]}, found {_shown(found)}", hint


def _choice(found: object, context: Mapping[str, Any]) -> tuple[str, str]:
    expected = str(context.get("expected") or context.get("expected_tags", ""))
    known = re.findall(r"'([^']*)'", expected)
    tag = str(context.get("tag", found))
    return f"`{tag}` is not one of {expected}", nearest(
        tag, known
    ) if known else f"write {expected}"


def _last_key(location: tuple[int | str, ...]) -> str:
    return next((step for step in reversed(_steps(location)) if step), "it")


def _shown(value: object) -> str:
    """A value about as the file spells it, cut short."""
    match value:
        case bool():
            text = str(value).lower()
        case Decimal():
            text = str(value)
        case tuple():
            text = repr(list(value))
        case _:
            text = repr(value)
    limit = 80
    return text if len(text) <= limit else text[:limit] + "..."


def _known_keys(schema: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys of the table at `location`, found by walking the schema."""
    models: list[type[BaseModel]] = [schema]
    for step in location:
        tagged = [item for item in models if step in _kinds(item)]
        fields = [field for item in models for field in _fields(item, step)]
        models = tagged or [found for field in fields for found in _models(field)] or models
    return list(dict.fromkeys(name for item in models for name in _written(item)))


def _written(model: type[BaseModel]) -> list[str]:
    """The keys of a table that a file may write; an alias stands for keys under their own names."""
    return [name for name, field in model.model_fields.items() if field.alias is None]


def _fields(model: type[BaseModel], step: int | str) -> list[object]:
    fields = model.model_fields.items()
    return [field.annotation for name, field in fields if step in {name, field.alias}]


def _kinds(model: type[BaseModel]) -> tuple[object, ...]:
    """The values of `kind` that choose this table among the tables of a union."""
    field = model.model_fields.get("kind")
    return () if field is None else tuple(getattr(field.annotation, "__args__", ()))


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    found: list[type[BaseModel]] = []
    for argument in getattr(annotation, "__args__", ()):
        found += _models(argument)
    return found
