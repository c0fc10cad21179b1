"""Types as text that Spark's parser reads back, from the JSON form that Spark and Delta share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from belvedere.sql.binder.char_columns import has_char

CHAR_AS_BY_DEFAULT = {
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.noCharPaddingInPredicate": "false",
}
"""Settings by which Spark pads values of CHAR when it reads and compares them."""

_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_FIELD_NAME = re.compile(r"(?:`(?:[^`]|``)*`|\w+):")
_WORD = re.compile(r"[a-z_]+")
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""Under which name a column of type STRING remembers that it was declared as CHAR or VARCHAR."""


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


def declared_of(schema_json: Mapping[str, Any]) -> dict[str, str]:
    """The types of columns that were declared with CHAR or VARCHAR, by their names.

    Spark calls all of them STRING, and so does `columns_of`.
    """
    declared = (
        (f["name"], (f.get("metadata") or {}).get(_DECLARED)) for f in schema_json["fields"]
    )
    return {name: str(kind) for name, kind in declared if kind}


def places_of(schema_json: Mapping[str, Any]) -> dict[str, str]:
    """Where files hold the values of each column and how they are read, by its name in lower case.

    That is its name, unless columns are mapped: then a column that was renamed keeps its place,
    and one that was dropped and added again has another. Values of CHAR are read padded: where
    such a column becomes VARCHAR, its values are others though the files stay.
    """
    return {f["name"].lower(): _place(f) for f in schema_json["fields"]}


def _place(field: Mapping[str, Any]) -> str:
    metadata = field.get("metadata") or {}
    own = metadata.get("delta.columnMapping.physicalName") or field["name"]
    declared = str(metadata.get(_DECLARED, ""))
    padded = [declared] if has_char(declared) else []
    return "/".join([own.lower(), *_places_within(field["type"]), *padded])


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
