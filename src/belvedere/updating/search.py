"""The translator: base changes whose effect on the view is exactly what was asked for.

A deletion takes base rows away and an insertion puts some in; neither does the other, so that no
base row that the view does not show is lost for the sake of one that it shows. A replacement does
both. Within that, the search is complete: of all translations it finds one that touches the
fewest base rows, or that there is none.

CP-SAT chooses (which rows of a view row's embeddings go; of each segment, an existing row or a new
one; of what the view does not show, a value), and every choice is tried out exactly. What it did
beyond the request, or against a constraint, comes back as a clause that forbids it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from belvedere.errors import Invalid
from belvedere.updating.asked import Coder, Hidden, Options, ViewRow, options_of
from belvedere.updating.base import Base
from belvedere.updating.constraints import Source, TableRules
from belvedere.updating.exact import Changes, Effect, Embedding, State
from belvedere.updating.puts import Choice, Literal, Put, keep, merged
from belvedere.updating.restricted import Engine
from belvedere.updating.trying import Translation, Trial, Tried
from belvedere.updating.writing import Broken, allowed, completed

ROUNDS = 300
MOST_EMBEDDINGS = 5_000
MOST_WEIGHED = 100
"""Rows that may go, or show a view row, up to which it matters what they leave behind."""


@dataclass(frozen=True)
class Found:
    """What a search came to: a translation, or why there is none."""

    translation: Translation | None
    exhausted: bool
    """Whether every choice was tried or excluded."""
    least: Tried | None = None
    """Of the choices that did more than was asked, the one that did least besides."""
    broken: str = ""
    """The constraint that the last choice broke."""


@dataclass
class Request:
    """View rows to delete and to insert, and who knows about the tables."""

    base: Base
    rules: Mapping[str, TableRules]
    source: Source
    delete: Sequence[ViewRow] = ()
    insert: Sequence[ViewRow] = ()
    instead: Mapping[int, int] = field(default_factory=dict)
    """For rows to insert that replace one: which of those to delete."""
    steps: int = 2_000_000
    engine: Engine | None = None
    """Who joins what is too much for memory."""
    coder: Coder = field(init=False)

    def __post_init__(self) -> None:
        self.coder = Coder(self.base, self.source)


def search(request: Request) -> Found:
    """A translation of a request that touches the fewest base rows, if there is one."""
    return _Search(request).run()


def left_alone(base: Base, key: Sequence[str] | None, p: int, number: int) -> int:
    """How many rows a row leaves behind with no partner; those count twice that refer to its key."""
    found = 0
    for e in base.tree.around[p]:
        at = int(base.keys(p, e)[number])
        if len(base.matching(p, e, at)) == 1:
            refer = key is not None and set(key) <= set(base.tree.columns(p, e))
            found += (1 + refer) * len(base.matching(base.tree.edges[e].across(p), e, at))
    return found


class _Search:
    def __init__(self, request: Request) -> None:
        from ortools.sat.python import cp_model

        self.request, self.base, self.coder = request, request.base, request.coder
        self.model = cp_model.CpModel()
        self.solver = cp_model.CpSolver()
        self.solver.parameters.num_workers = 1
        self.solver.parameters.random_seed = 1
        self.literals: dict[Literal, Any] = {}
        self.cost: list[Any] = []
        self.ties: list[tuple[int, Any]] = []
        self.capped = False
        self.embeddings: list[list[Embedding]] = []
        self.inserts: list[list[Options]] = []
        self.deleted = [self.coder.signature(r) for r in request.delete]
        self.inserted = [self.coder.signature(r) for r in request.insert]
        self.trial = Trial(self.base, request.engine, request.steps, self.deleted, self.inserted)
        self.least: Tried | None = None
        self.broken = ""
        self._deletions()
        self._insertions()
        # What is preferred decides only among as few base rows.
        most = 1 + sum(weight for weight, _ in self.ties)
        self.model.minimize(most * sum(self.cost) + sum(w * literal for w, literal in self.ties))

    def _literal(self, literal: Literal) -> Any:
        if literal not in self.literals:
            self.literals[literal] = self.model.new_bool_var(str(literal))
        return self.literals[literal]

    def _deletions(self) -> None:
        for row, signature in zip(self.request.delete, self.deleted, strict=True):
            found = list(islice(self.trial.old.showing(signature), MOST_EMBEDDINGS + 1))
            if not found:
                raise Invalid(f"the view has no row {row.text()}", reason="NO_SUCH_ROW")
            self.capped |= len(found) > MOST_EMBEDDINGS
            self.embeddings.append(found)
            for embedding in found:
                self.model.add_bool_or([self._gone(p, n) for p, n in enumerate(embedding)])

    def _gone(self, p: int, number: int) -> Any:
        table = self.base.shape.positions[p].table
        literal = ("gone", table, number)
        if literal not in self.literals:
            count = int(self.base.tables[table].counts[number])
            self.cost.append(count * self._literal(literal))
            if len(self.literals) <= MOST_WEIGHED:
                weight = left_alone(self.base, self.request.rules[table].key, p, number)
                self.ties.append((weight, self._literal(literal)))
        return self._literal(literal)

    def _insertions(self) -> None:
        for i, row in enumerate(self.request.insert):
            options, capped = options_of(
                self.coder, row, self.request.rules, self.request.source, len(self.request.insert)
            )
            self.capped |= capped
            self.inserts.append(options)
            for h in {h: None for o in options for h in o.hidden}:
                kept = self._kept(i, h)
                values = dict.fromkeys([*kept, *(v for o in options for v in o.values.get(h, ()))])
                self.model.add_exactly_one([self._literal(("value", i, h, v)) for v in values])
                if kept:
                    others = [v for v in values if v not in kept]
                    self.ties += [(1, self._literal(("value", i, h, v))) for v in others]
            for p, o in enumerate(options):
                self._segment(i, p, o)

    def _kept(self, i: int, h: Hidden) -> list[Any]:
        """A hidden value in the view row that a row to insert replaces."""
        old = self.request.instead.get(i)
        some = [] if old is None else self.embeddings[old][:MOST_WEIGHED]
        places = [p for p in range(len(self.base.shape.positions)) if h in self.coder.hidden(p)]
        return list(
            dict.fromkeys(v for e in some for p in places for v in self.coder.hidden_in(p, e[p], h))
        )

    def _segment(self, i: int, p: int, o: Options) -> None:
        """A segment is an existing row, which fixes what is hidden, or a new one."""
        make = self._literal(("make", i, p))
        self.cost.append(make)
        uses = []
        for number in o.existing:
            use = self._literal(("use", i, p, number))
            uses.append(use)
            table = self.base.shape.positions[p].table
            if ("gone", table, number) in self.literals:
                self.model.add_bool_or([use.Not(), self._gone(p, number).Not()])
            for h in o.hidden:
                value = self.coder.hidden_code(p, number, h)
                if value is not None:
                    self.model.add_implication(use, self._literal(("value", i, h, value)))
        self.model.add_exactly_one([make, *uses])
        if o.must_exist:
            self.model.add(make == 0)

    def run(self) -> Found:
        from ortools.sat.python import cp_model

        for _ in range(ROUNDS):
            status = self.solver.solve(self.model)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                exhausted = not self.capped and status == cp_model.INFEASIBLE
                return Found(None, exhausted, self.least, self.broken)
            chosen = frozenset(k for k, v in self.literals.items() if self.solver.value(v))
            translation = self._tried(chosen)
            if translation is not None:
                return Found(translation, True)
        return Found(None, False, self.least, self.broken)

    def _tried(self, chosen: frozenset[Literal]) -> Translation | None:
        """A choice tried out: a translation, or one clause more."""
        try:
            attempt, choice = self._attempt(chosen)
        except Broken as broken:
            self.broken = str(broken)
            self.capped |= not broken.certain
            for unless in broken.unless:
                self._forbid(chosen, broken.because, unless)
            return None
        self.broken = ""
        found = self.trial.effect(attempt)
        if self.trial.does_exactly(found):
            return attempt
        tried = self.trial.judged(attempt, found, self.least)
        self.least = min(filter(None, (self.least, tried)), key=lambda t: t.harm)
        self._learn(choice, attempt.changes, found)
        return None

    def _attempt(self, chosen: frozenset[Literal]) -> tuple[Translation, Choice]:
        """The base changes of a choice, and what each new row comes from."""
        taken: dict[str, set[int]] = {}
        for kind, *rest in chosen:
            if kind == "gone":
                taken.setdefault(rest[0], set()).add(rest[1])
        gone = {t: frozenset(n) for t, n in taken.items()}
        puts = merged(self._made(chosen), self.request.rules)
        choice = Choice(chosen, gone, puts, self.inserts, self.coder)
        keep(self.request, choice)
        full = completed(self.request, choice)
        new = {t: tuple(self.coder.coded(t, row) for row in rows) for t, rows in full.items()}
        changes = Changes(gone, new)
        allowed(self.request, changes, choice, full)
        # A new value of a key that the view joins on might do what another does not.
        self.capped |= any(self._made_up(put) for some in puts.values() for put in some)
        return Translation(changes, full), choice

    def _made_up(self, put: Put) -> bool:
        key = self.request.rules[put.table].key or ()
        return any(c in self.coder.shape.used[put.table] and c not in put.known for c in key)

    def _made(self, chosen: frozenset[Literal]) -> Iterator[Put]:
        """A row for each segment that is to be made."""
        told: dict[int, dict[Hidden, Any]] = {}
        for kind, i, *rest in chosen:
            if kind == "value":
                told.setdefault(i, {})[rest[0]] = rest[1]
        for i, options in enumerate(self.inserts):
            values = told.get(i, {})
            for p, o in enumerate(options):
                if ("make", i, p) not in chosen:
                    continue
                why: list[Literal] = [
                    ("make", i, p),
                    *(("value", i, h, values[h]) for h in o.hidden),
                ]
                table = self.base.shape.positions[p].table
                known = self.coder.put_in(p, o, values)
                yield Put(table, known, why, {p: why}, self._replaced(i, p))

    def _replaced(self, i: int, p: int) -> list[int]:
        """The rows at a position of the view row that a row to insert replaces."""
        old = self.request.instead.get(i)
        return [] if old is None else list(dict.fromkeys(e[p] for e in self.embeddings[old]))

    def _learn(self, choice: Choice, changes: Changes, found: Effect) -> None:
        """Clauses that exclude what a choice did wrong."""
        learned, chosen = False, choice.chosen
        inserted, after = set(self.inserted), State(self.base, changes, [self.request.steps])
        for signature, embedding in found.added.items():
            if signature not in inserted:
                self._never_together(embedding, choice)
                learned = True
        values = [c for c in chosen if c[0] in ("value", "make", "use")]
        for signature in found.removed.keys() - self.trial.unwanted():
            hit = [
                ("gone", self.base.shape.positions[p].table, n)
                for e in self.trial.old.showing(signature)
                for p, n in enumerate(e)
                if n in changes.gone.get(self.base.shape.positions[p].table, ())
            ]
            self._forbid(chosen, [*dict.fromkeys(hit), *values])
            learned = True
        for signature in self.trial.unwanted():
            left = after.shows(signature)
            if left is not None:
                self._never_together(left, choice)
                learned = True
        if not learned:
            self._forbid(chosen, list(chosen))

    def _never_together(self, embedding: Embedding, choice: Choice) -> None:
        """The rows of an embedding do not all stay or come: one is not made, or one goes."""
        because: list[Literal] = []
        unless: list[Literal] = []
        for p, number in enumerate(embedding):
            table = self.base.shape.positions[p].table
            if number < 0:
                because += choice.puts[table][-1 - number].why
            else:
                unless.append(("gone", table, number))
        self._forbid(choice.chosen, because, unless)

    def _forbid(
        self, chosen: Set[Literal], because: Iterable[Literal], unless: Iterable[Literal] = ()
    ) -> None:
        """One of some choices is not made, or one of some others is."""
        heal = [c for c in unless if c in self.literals and c not in chosen]
        clause = [self._literal(c).Not() for c in dict.fromkeys(because) if c in chosen]
        self.model.add_bool_or([*clause, *(self._literal(c) for c in heal)])
