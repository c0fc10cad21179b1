"""Names and texts as Spark SQL spells them: quoted identifiers, string literals, dotted names."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from urllib.parse import quote as url_quoted

from belvedere.errors import Invalid

STORED_PREFIX = "__bv_"
PART_PREFIX = "__bvp_"

_DATABASE = re.compile(r"lake_[0-9a-f]{12}")
_ADMISSIBLE = re.compile(r"[A-Za-z0-9_]+")
_HEX = re.compile(r"_x([0-9a-f]{1,5})_")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_PLAIN = frozenset(
    'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _,.:{}[]()"-+*/=<>'
)


LONGEST_NAME = 200
"""Characters of a name as files are named after it; what is derived of it needs the rest of 255."""


def refuse_long(name: str) -> None:
    """Invalid if no file can be named after the last part of a name."""
    last = parts(name)[-1]
    if len(url_quoted(last, safe="")) > LONGEST_NAME:
        raise Invalid(
            f"the name '{last[:30]}…' is too long",
            detail=f"it has {len(last)} characters, and files are named after it",
            hint=f"choose one of at most {LONGEST_NAME} letters a-z, digits and _,"
            " or of fewer other characters, which take up to 12 each",
            reason="NAME_TOO_LONG",
        )


def database_name(directory: Path) -> str:
    """The Spark database that stands for a lake directory."""
    return "lake_" + hashlib.sha256(str(directory).encode()).hexdigest()[:12]


def is_database(name: str) -> bool:
    """Whether a schema's name is that of some lake directory's database.

    >>> is_database("lake_0123456789ab"), is_database("gold")
    (True, False)
    """
    return _DATABASE.fullmatch(name) is not None


def quote(name: str) -> str:
    """An identifier in backticks.

    >>> quote("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal that means `text` under every setting of the parser's variables.

    Anything but plain characters is escaped: `${x}` in SQL text is substituted before parsing.

    >>> literal("it's ${x}")
    "'it\\\\u0027s \\\\u0024{x}'"
    """
    return "'" + "".join(c if c in _PLAIN else _escape(c) for c in text) + "'"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parts(name: str) -> tuple[str, ...]:
    """The identifiers of a dotted name; backticks keep a dot inside one.

    >>> parts("main.`a.b`")
    ('main', 'a.b')
    """
    found: list[str] = []
    position = 0
    while match := _PART.match(name, position):
        found.append(match[1].replace("``", "`") if match[1] else match[2])
        position = match.end()
        if position == len(name):
            return tuple(found)
        if name[position] != ".":
            break
        position += 1
    raise Invalid(
        f"{name!r} is not a name", hint="quote special characters with backticks", reason="SYNTAX"
    )


def dotted(name: str) -> str:
    """A possibly dotted name, every part quoted; a name that cannot be split is one part."""
    try:
        return ".".join(quote(part) for part in parts(name))
    except Invalid:
        return quote(name)


def admissible(name: str) -> bool:
    """Whether Spark's session catalog takes it for a permanent table or view.

    >>> admissible("select"), admissible("a b"), admissible("naïve")
    (True, False, False)
    """
    return _ADMISSIBLE.fullmatch(name) is not None


def stored_name(view: str) -> str:
    """The name of the table that holds a view's state; inadmissible characters as hex.

    >>> stored_name("visits"), stored_name("a b")
    ('__bv_visits', '__bv_a_x20_b')
    """
    safe = "".join(c if admissible(c) else f"_x{ord(c):x}_" for c in view)
    return STORED_PREFIX + safe.lower()


def view_name(stored: str) -> str:
    """The name of the view whose state a table holds, as far as the table's name tells.

    >>> view_name("__bv_visits"), view_name("__bv_a_x20_b")
    ('visits', 'a b')
    """
    return _HEX.sub(lambda m: chr(int(m[1], 16)), stored.removeprefix(STORED_PREFIX))


def part_name(stored: str, number: int) -> str:
    """The name of the table that holds a part of a view.

    >>> part_name("__bv_visits", 1)
    '__bvp_visits_1'
    """
    return f"{PART_PREFIX}{stored.removeprefix(STORED_PREFIX)}_{number}"


def whole_name(part: str) -> str:
    """The name of the table of the view that a part is of.

    >>> whole_name("__bvp_visits_1")
    '__bv_visits'
    """
    return STORED_PREFIX + part.removeprefix(PART_PREFIX).rpartition("_")[0]


def is_part(name: str) -> bool:
    """Whether a possibly qualified name is that of a part's table."""
    return parts(name)[-1].startswith(PART_PREFIX)


def hidden(name: str) -> bool:
    """Whether a table or view is ours and not shown to users."""
    return name.lower().startswith((STORED_PREFIX, PART_PREFIX))
