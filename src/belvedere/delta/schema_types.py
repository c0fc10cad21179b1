"""Types as text that Spark's parser reads back, from the JSON form that Spark and Delta share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belvedere.algebra.types import (
    ArrayType,
    MapType,
    OtherType,
    StringType,
    StructType,
    Type,
    parse,
)
from belvedere.sql.binder.char_columns import has_char

CHAR_AS_BY_DEFAULT = {
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.noCharPaddingInPredicate": "false",
}
"""Settings by which Spark pads values of CHAR when it reads and compares them."""

_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""Under which name a column of type STRING remembers that it was declared as CHAR or VARCHAR."""


def type_text(type_json: Any, metadata: Mapping[str, Any] | None = None, path: str = "") -> str:
    """Spark's simple string of a type; odd field names of structs are quoted, so it parses.

    >>> type_text({"type": "array", "elementType": "long", "containsNull": True})
    'array<bigint>'
    """
    return str(_type(type_json, metadata, path))


def _type(type_json: Any, metadata: Mapping[str, Any] | None, path: str) -> Type:
    if isinstance(type_json, str):
        collation = ((metadata or {}).get("__COLLATIONS") or {}).get(path)
        if type_json == "string" and collation:
            return StringType(collation.rsplit(".", 1)[-1])
        return parse(_NAMES.get(type_json, type_json))
    match type_json["type"]:
        case "array":
            return ArrayType(_type(type_json["elementType"], metadata, f"{path}.element"))
        case "map":
            key = _type(type_json["keyType"], metadata, f"{path}.key")
            return MapType(key, _type(type_json["valueType"], metadata, f"{path}.value"))
        case "struct":
            return StructType(tuple(map(_field, type_json["fields"])))
        case "udt":
            return _type(type_json["sqlType"], None, "")
        case other:
            return OtherType(str(other))


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


def _field(field: Mapping[str, Any]) -> tuple[str, Type]:
    name = field["name"]
    return name, _type(field["type"], field.get("metadata"), name)
