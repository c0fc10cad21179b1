"""The types of Spark as values.

Schemas, saved definitions and statements hold the text of a type. `parse` makes a value of the
text, which says what the type can do, and `str` gives the text back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar


@dataclass(frozen=True)
class Type:
    """A type of Spark; `str` is the text that Spark shows for it."""

    is_integer: ClassVar[bool] = False
    is_decimal: ClassVar[bool] = False
    is_float: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False
    """Whether it is a number without rounding: an integer or a decimal."""
    is_number: ClassVar[bool] = False

    @property
    def parts(self) -> tuple[Type, ...]:
        """The types of elements, of keys and values, or of fields."""
        return ()

    @property
    def nested(self) -> Iterator[Type]:
        """The type and all types within it."""
        yield self
        for part in self.parts:
            yield from part.nested


@dataclass(frozen=True)
class IntegerType(Type):
    """TINYINT, SMALLINT, INT or BIGINT, by its number of bits."""

    bits: int
    is_integer: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True
    is_number: ClassVar[bool] = True
    scale: ClassVar[int] = 0

    @property
    def precision(self) -> int:
        """The digits of the decimal that Spark takes it for in arithmetic with decimals."""
        return {8: 3, 16: 5, 32: 10, 64: 20}[self.bits]

    @property
    def least(self) -> int:
        """The least value."""
        return -(1 << (self.bits - 1))

    @property
    def greatest(self) -> int:
        """The greatest value."""
        return (1 << (self.bits - 1)) - 1

    def __str__(self) -> str:
        return {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[self.bits]


@dataclass(frozen=True)
class DecimalType(Type):
    """DECIMAL(precision, scale)."""

    precision: int
    scale: int
    is_decimal: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True
    is_number: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class FloatingType(Type):
    """FLOAT or DOUBLE, by its number of bits."""

    bits: int
    is_float: ClassVar[bool] = True
    is_number: ClassVar[bool] = True

    def __str__(self) -> str:
        return {32: "float", 64: "double"}[self.bits]


@dataclass(frozen=True)
class StringType(Type):
    """STRING, perhaps with a collation."""

    collation: str = ""

    def __str__(self) -> str:
        return f"string collate {self.collation}" if self.collation else "string"


@dataclass(frozen=True)
class CharType(Type):
    """CHAR(length): text that Spark pads when it reads it."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True)
class VarcharType(Type):
    """VARCHAR(length)."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True)
class SimpleType(Type):
    """A type without parameters; the constants below are all there are."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class IntervalType(Type):
    """INTERVAL, with its units if it has any: `day to second`."""

    units: str = ""

    def __str__(self) -> str:
        return f"interval {self.units}".rstrip()


@dataclass(frozen=True)
class ArrayType(Type):
    """ARRAY<element>."""

    element: Type

    @property
    def parts(self) -> tuple[Type, ...]:
        return (self.element,)

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True)
class MapType(Type):
    """MAP<key, value>."""

    key: Type
    value: Type

    @property
    def parts(self) -> tuple[Type, ...]:
        return (self.key, self.value)

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True)
class StructType(Type):
    """STRUCT<field: type, …>."""

    fields: tuple[tuple[str, Type], ...]

    @property
    def parts(self) -> tuple[Type, ...]:
        return tuple(type_ for _, type_ in self.fields)

    def __str__(self) -> str:
        return f"struct<{','.join(f'{_quoted(n)}:{t}' for n, t in self.fields)}>"


@dataclass(frozen=True)
class OtherType(Type):
    """A type that this module does not know, by its text."""

    text: str

    def __str__(self) -> str:
        return self.text


ExactNumber = IntegerType | DecimalType

TINYINT, SMALLINT, INT, BIGINT = (IntegerType(bits) for bits in (8, 16, 32, 64))
FLOAT, DOUBLE = FloatingType(32), FloatingType(64)
STRING = StringType()
BOOLEAN, BINARY, DATE = SimpleType("boolean"), SimpleType("binary"), SimpleType("date")
TIMESTAMP, TIMESTAMP_NTZ = SimpleType("timestamp"), SimpleType("timestamp_ntz")
VOID, VARIANT = SimpleType("void"), SimpleType("variant")

_BY_NAME: dict[str, Type] = {
    str(type_): type_
    for type_ in (
        *(TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BOOLEAN, BINARY, DATE),
        *(TIMESTAMP, TIMESTAMP_NTZ, VOID, VARIANT, IntervalType()),
    )
}
_BY_NAME["decimal"] = DecimalType(10, 0)
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)", re.IGNORECASE)
_TEXT = re.compile(r"(char|varchar)\((\d+)\)", re.IGNORECASE)
_WORDS = re.compile(r"(interval|string collate) (\S.*)", re.IGNORECASE)
_NESTED = re.compile(r"(array|map|struct)<(.*)>", re.IGNORECASE | re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEP = {"<": 1, "(": 1, ">": -1, ")": -1}


@cache
def parse(text: str) -> Type:
    """The type that a text of Spark's means; one that is not known is an `OtherType`.

    >>> parse("decimal(12,2)")
    DecimalType(precision=12, scale=2)
    >>> str(parse("map<string,struct<`a b`:array<char(3)>>>"))
    'map<string,struct<`a b`:array<char(3)>>>'
    >>> parse("geography(4326)")
    OtherType(text='geography(4326)')
    """
    if type_ := _BY_NAME.get(text.lower()):
        return type_
    if match := _DECIMAL.fullmatch(text):
        return DecimalType(int(match[1]), int(match[2]))
    if match := _TEXT.fullmatch(text):
        return (CharType if match[1].lower() == "char" else VarcharType)(int(match[2]))
    if match := _WORDS.fullmatch(text):
        return IntervalType(match[2]) if len(match[1]) == 8 else StringType(match[2])
    if match := _NESTED.fullmatch(text):
        return _nested(match[1].lower(), match[2]) or OtherType(text)
    return OtherType(text)


def _nested(word: str, inner: str) -> Type | None:
    """An array, map or struct of what stands between its angle brackets; None if that is wrong."""
    parts = _split(inner, ",")
    match word, parts:
        case "array", [element]:
            return ArrayType(parse(element))
        case "map", [key, value]:
            return MapType(parse(key), parse(value))
        case "struct", _:
            fields = [_split(part, ":") for part in parts if part]
            if all(len(field) == 2 for field in fields):
                return StructType(tuple((_bare(n), parse(t)) for n, t in fields))
    return None


def _split(text: str, separator: str) -> list[str]:
    """A text in pieces, split at a character outside brackets and backquotes."""
    pieces, depth, quoted, start = [], 0, False, 0
    for at, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += _STEP.get(character, 0)
            if character == separator and depth == 0:
                pieces.append(text[start:at].strip())
                start = at + 1
    return [*pieces, text[start:].strip()]


def _quoted(name: str) -> str:
    """The name of a field, in backquotes where the text would not be read back otherwise."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _bare(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
