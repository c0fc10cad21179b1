"""Types as text that Spark's parser reads back, from the JSON form that Spark and Delta share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_FIELD_NAME = re.compile(r"(?:`(?:[^`]|``)*`|\w+):")
_WORD = re.compile(r"[a-z_]+")
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def type_text(type_json: Any, metadata: Mapping[str, Any] | None = None, path: str = "") -> str:
    """Spark's simple string of a type; odd field names of structs are quoted, so it parses.

    >>> type_text({"type": "array", "elementType": "long", "containsNull": True})
    'array<bigint>'
    """
    if isinstance(type_json, str):
        collation = ((metadata or {}).get("__COLLATIONS") or {}).get(path)
        if type_json == "string" and collation:
            return f"string collate {collation.rsplit('.', 1)[-1]}"
        return _NAMES.get(type_json, type_json)
    match type_json["type"]:
        case "array":
            return f"array<{type_text(type_json['elementType'], metadata, f'{path}.element')}>"
        case "map":
            key = type_text(type_json["keyType"], metadata, f"{path}.key")
            value = type_text(type_json["valueType"], metadata, f"{path}.value")
            return f"map<{key},{value}>"
        case "struct":
            return f"struct<{','.join(_field(f) for f in type_json['fields'])}>"
        case "udt":
            return type_text(type_json["sqlType"])
        case other:
            return str(other)


def type_words(kind: str) -> frozenset[str]:
    """The words of a type's text without the names of fields.

    >>> sorted(type_words("struct<interval:array<int>,`map<`:string>"))
    ['array', 'int', 'string', 'struct']
    """
    return frozenset(_WORD.findall(_FIELD_NAME.sub("", kind)))


def columns_of(schema_json: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The columns of a struct in JSON form: names and type texts, in order."""
    return tuple(
        (f["name"], type_text(f["type"], f.get("metadata"), f["name"]))
        for f in schema_json["fields"]
    )


def places_of(schema_json: Mapping[str, Any]) -> dict[str, str]:
    """Where files hold the values of each column, by its name in lower case.

    That is its name, unless columns are mapped: then a column that was renamed keeps its place,
    and one that was dropped and added again has another.
    """
    return {f["name"].lower(): _place(f) for f in schema_json["fields"]}


def _place(field: Mapping[str, Any]) -> str:
    own = (field.get("metadata") or {}).get("delta.columnMapping.physicalName") or field["name"]
    return "/".join([own.lower(), *_places_within(field["type"])])


def _places_within(type_json: Any) -> list[str]:
    if isinstance(type_json, str):
        return []
    parts = (type_json.get(key) for key in ("elementType", "keyType", "valueType", "sqlType"))
    below = [place for part in parts if part is not None for place in _places_within(part)]
    fields = type_json.get("fields") or ()
    return [*below, *(f"({_place(f)})" for f in fields)]


def _field(field: Mapping[str, Any]) -> str:
    name = field["name"]
    quoted = name if _SIMPLE.fullmatch(name) else "`" + name.replace("`", "``") + "`"
    return f"{quoted}:{type_text(field['type'], field.get('metadata'), name)}"
