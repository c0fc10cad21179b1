"""What a view is, in facts: its columns, its query, its policy, what it reads."""

from __future__ import annotations

from belvedere.lake.offline import ReadableLake
from belvedere.listing import Listing, table
from belvedere.views.catalog import shown_name, sound_and_broken
from belvedere.views.definition import View


class Facts(Listing[tuple[str, str, str]]):
    """Lines of a name, a value and what kind of line it is."""

    headers = ("name", "value", "kind")

    def rows(self) -> list[tuple[object, ...]]:
        return list(self)

    def __str__(self) -> str:
        columns = table(("column", "type"), (fact[:2] for fact in self if fact[2] == "column"))
        facts = (f"{name}: {value}" for name, value, kind in self if kind == "fact")
        return "\n\n".join((columns, "\n".join(facts)))


class ViewListing(Listing[tuple[str, str, str, str]]):
    """Views with their policy and query, or with what is wrong with them."""

    headers = ("name", "policy", "query", "error")

    def rows(self) -> list[tuple[object, ...]]:
        return list(self)

    def __str__(self) -> str:
        if not self:
            return "no views"
        return table(self.headers[:3], ((n, p, q or f"broken: {e}") for n, p, q, e in self))


def describe(lake: ReadableLake, view: View) -> Facts:
    """The columns of a view with their types, then the facts about it."""
    definition = view.definition
    facts = {
        "query": definition.query,
        "policy": definition.policy,
        "comment": definition.comment or "",
        "reads": ", ".join(shown_name(lake, t) for t in view.inputs),
        "stored in": view.stored,
    }
    columns = [(name, kind, "column") for name, kind in definition.columns]
    return Facts([*columns, *((name, value, "fact") for name, value in facts.items() if value)])


def show(lake: ReadableLake) -> ViewListing:
    """Every view of a lake, the broken ones last."""
    sound, broken = sound_and_broken(lake)
    listed = [(v.name, v.definition.policy, v.definition.query, "") for v in sound]
    return ViewListing([*listed, *((b.name, "", "", str(b.error)) for b in broken)])
