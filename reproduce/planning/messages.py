"""Turns what a schema found wrong into one message that names the place, the rule and the way out."""

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reproduce.errors import UsageError

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


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint that names the closest known name, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return "known: " + ", ".join(f"`{item}`" for item in known)


def explain(error: ValidationError, schema: type[BaseModel], *, place: str) -> UsageError:
    """The first thing that is wrong, as a person can mend it."""
    details = error.errors(include_url=False)
    # A misspelt key also leaves the right one missing; the misspelling is what to mend.
    first = min(details, key=lambda item: item["type"] != "extra_forbidden")
    where = ".".join(_steps(first["loc"]))
    message, hint = _words(first, schema)
    return UsageError(message, place=f"{place}: {where}" if where else place, hint=hint)


def _steps(location: tuple[int | str, ...]) -> list[str]:
    """The keys as they stand in the file: without union tags and our own grouping."""
    tags = {"exit-code", "output", "timeout", "junit", "duration", "factors", "str", "GitSource"}
    steps = [str(step) for step in location]
    shown = [step for step in steps if step not in tags and not step.startswith("tuple[")]
    return ["symptom" if step == "symptoms" else step for step in shown if step != "[key]"]


def _words(detail: ErrorDetails, schema: type[BaseModel]) -> tuple[str, str]:
    kind, found = detail["type"], detail.get("input")
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])
        return f"unknown key `{key}`", nearest(key, _known_keys(schema, detail["loc"][:-1]))
    if kind in {"literal_error", "enum", "union_tag_invalid"}:
        expected = context.get("expected") or context.get("expected_tags", "")
        tag = context.get("tag", found)
        return f"`{tag}` is not one of {expected}", "write one of the names above"
    if kind == "missing" and detail["loc"][-1:] == ("symptom",):
        return "a required key is missing", "say what the bug looks like in `[symptom]`"
    if kind in _RULES:
        shown = "" if kind in {"missing", "union_tag_not_found"} else f", found {found!r}"
        return _RULES[kind] + shown, "see `reproduce schema` for every key"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}, found {_short(found)}", "mend the value"


def _short(value: object) -> str:
    text = repr(value)
    limit = 80
    return text if len(text) <= limit else text[:limit] + "..."


def _known_keys(schema: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys of the table at `location`, found by walking the schema."""
    model: Any = schema
    for step in location:
        field = getattr(model, "model_fields", {}).get(step)
        candidates = _models(field.annotation) if field is not None else []
        if isinstance(model, list):
            candidates = [
                item
                for item in model
                if step in (getattr(item.model_fields.get("kind"), "annotation", None),)
                or str(step) in str(item.model_fields.get("kind"))
            ]
        if candidates:
            model = candidates if len(candidates) > 1 else candidates[0]
    if isinstance(model, list):
        return sorted({name for item in model for name in item.model_fields})
    names = list(getattr(model, "model_fields", {}))
    return [name for name in names if name != "symptoms"]


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    found: list[type[BaseModel]] = []
    for argument in getattr(annotation, "__args__", ()):
        found += _models(argument)
    return found
