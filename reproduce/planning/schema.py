"""The JSON Schema of the investigation file, in the shape that a person writes."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from policies.binomial_v1_parameters import DEFAULTS, OPTIONAL
from policies.registry import names
from reproduce.knobs import KNOBS
from reproduce.planning.file import FACTORS, SYMPTOMS, InvestigationFile, RunTable

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

NAME = "^[a-z0-9_-]{1,64}$"
"""Names of factors, levels and symptoms."""

LEVEL_KEYS = ("cmd", "timeout_s")
"""Keys of `[run]` that a level may set beside the knobs."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {"binomial/1": (*DEFAULTS, OPTIONAL)}
"""The parameters of the policies that have some."""


def file_schema() -> Schema:
    """The JSON Schema of an investigation file; it refuses every unknown key.

    Rules that need more than the file itself, such as a budget that cannot reach its claim, are
    left to `reproduce check`.
    """
    schema = _portable(InvestigationFile.model_json_schema(by_alias=True))
    tables = schema["$defs"]
    matrix = tables["MatrixTable"]
    del matrix["properties"][FACTORS]
    del matrix["required"]
    matrix.update(
        minProperties=1,
        patternProperties={_but("include", "exclude"): _named(_level(tables["RunTable"]))},
    )
    several = schema["properties"].pop(SYMPTOMS)["patternProperties"][NAME]
    schema["properties"]["symptom"] = {
        "description": "One symptom, or several as `[symptom.NAME]`.",
        "anyOf": [several, _named(several)],
    }
    schema["required"] = [*schema["required"], "symptom"]
    tables["PolicyTable"] = _policy(tables["PolicyTable"])
    return {
        "$schema": DIALECT,
        "$id": "urn:reproduce:schema:investigation/1",
        **schema,
        "title": "Investigation of a flaky bug",
    }


def _named(schema: Schema) -> Schema:
    """A table of at least one entry under names."""
    return {
        "type": "object",
        "minProperties": 1,
        "patternProperties": {NAME: schema},
        "additionalProperties": False,
    }


def _but(*reserved: str) -> str:
    return f"^(?!({'|'.join(reserved)})$)[a-z0-9_-]{{1,64}}$"


def _level(run: Schema) -> Schema:
    """A level: knob settings, and what it overrides of `[run]`."""
    properties = {
        key: run["properties"][key] for key in LEVEL_KEYS if key in RunTable.model_fields
    }
    for name, knob in KNOBS.items():
        properties[name] = {**_portable(knob.schema.json_schema()), "description": knob.summary}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _policy(table: Schema) -> Schema:
    """One schema for each policy, so that a parameter of another one is refused."""
    number = table["additionalProperties"]
    return {
        "description": table["description"],
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "name": {"const": name},
                    **dict.fromkeys(PARAMETERS.get(name, ()), number),
                },
                "required": ["name"],
                "additionalProperties": False,
            }
            for name in names()
        ],
    }


def _portable(schema: Schema) -> Schema:
    """The schema in the regular expressions of JSON Schema, and with closed tables.

    A pattern for keys says nothing of the keys that do not fit it.
    """
    text = json.dumps(schema).replace("\\\\A", "^").replace("\\\\z", "$")
    found: Schema = _closed(json.loads(text))
    return found


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    table = {key: _closed(item) for key, item in value.items()}
    if isinstance(table.get("title"), str):
        del table["title"]  # pydantic's spelling of the key
    if "patternProperties" in table:
        table["additionalProperties"] = False
        if "maxLength" in table.pop("propertyNames", {}):
            (item,) = table["patternProperties"].values()
            table["patternProperties"] = {NAME: item}
    return table
