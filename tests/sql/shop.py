"""A small catalog the SQL tests share."""

from __future__ import annotations

from functools import cache

from belvedere.errors import Invalid
from belvedere.sql.binder.bind import Bound, Relation, bind
from belvedere.sql.binder.naming import did_you_mean

TABLES: dict[str, str] = {
    "video": "video_id bigint, owner string, duration double",
    "log": "session_id bigint, video_id bigint, bytes bigint, day date",
    "r": "a int, b int, c string",
    "s": "a int, d int, e string",
    "t": "k int, x int, y int",
    "empty": "k int, x int, y int",
    "odd": "id int, `a b` int, `Sélect` string, info struct<city:string,geo:struct<lat:double>>, "
    "tags array<string>, props map<string,string>, `__n` int",
}


@cache
def fields(text: str) -> tuple[tuple[str, str], ...]:
    """`a int, b string` as pairs; commas inside types do not part."""
    pairs, depth, start = [], 0, 0
    for i, ch in enumerate(text + ","):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(ch, 0)
        if ch == "," and depth == 0:
            part = text[start:i].strip()
            name, _, kind = part[1:].partition("` ") if part[0] == "`" else part.partition(" ")
            pairs.append((name, kind.strip()))
            start = i + 1
    return tuple(pairs)


class Shop:
    """A catalog of a few tables."""

    def __init__(self, tables: dict[str, str] = TABLES, **views: Relation) -> None:
        self.relations = {n: Relation(fields(text), table=n) for n, text in tables.items()}
        self.relations.update(views)

    def resolve(self, name: str) -> Relation:
        """The relation of that name, in any case and with or without a schema."""
        short = name.split(".")[-1].lower()
        if short not in self.relations:
            raise Invalid(
                f"no table {name!r}",
                hint=did_you_mean(name, self.relations),
                reason="UNKNOWN_TABLE",
            )
        return self.relations[short]


def bound(text: str, **views: Relation) -> Bound:
    """A query over the small catalog."""
    return bind(text, Shop(**views))
