"""Calls that refresh views: each after those it reads, with one state of every table, recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from belvedere.derivations.cost_history import learn
from belvedere.derivations.ledger import Ledger
from belvedere.errors import Invalid
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.machine import blaming_the_machine
from belvedere.lake.spark_lake import SparkLake
from belvedere.views.catalog import Broken, all_views, sound_and_broken
from belvedere.views.definition import View
from belvedere.views.refresh import Refreshed, refresh

SIDE_BY_SIDE = 2
"""How many views refresh at once: most of a small refresh is waiting for the driver."""


class Calls:
    """The refreshes of a lake's views; `after` is called after each."""

    def __init__(self, door: SparkLake, after: Callable[[], None]) -> None:
        self._door = door
        self._after = after
        self.last: dict[str, Refreshed] = {}
        """The last refresh here of each stored table."""

    def everything(self, *, full: bool = False) -> tuple[list[Refreshed], list[Broken]]:
        """Every sound view fresh, side by side; and those that cannot be compiled."""
        with self._recorded() as ledger:
            views, broken = sound_and_broken(self._door)
            with Pins(self._door, views) as pins:
                return self._side_by_side(views, pins, ledger, full=full), broken

    def fresh(self, view: View, *, full: bool = False) -> Refreshed:
        """A view fresh, after the views it reads."""
        below = self._below(view)
        with self._recorded() as ledger, Pins(self._door, [*below, view]) as pins:
            for needed in below:
                self._bring(needed, pins, ledger)
            return self._bring(view, pins, ledger, full=full)

    def samples(self, view: View, samples: Sequence[View]) -> list[Refreshed]:
        """The samples of a view fresh, after the views they read; the view stays as it is."""
        below = [v for v in self._below(samples[0]) if v.stored != view.stored]
        with self._recorded() as ledger, Pins(self._door, [*below, *samples]) as pins:
            for needed in below:
                self._bring(needed, pins, ledger)
            return [self._bring(sample, pins, ledger) for sample in samples]

    def advance(self, view: View, only: list[str]) -> Refreshed:
        """Only some tables' changes applied to a view."""
        with self._recorded() as ledger, Pins(self._door) as pins:
            return self._bring(view, pins, ledger, only=only)

    def together(
        self, views: Sequence[View], only: Collection[str] | None = None
    ) -> list[Refreshed]:
        """Views that belong together fresh, or with only some tables' changes; see `_side_by_side`."""
        with self._recorded() as ledger, Pins(self._door, views) as pins:
            return self._side_by_side(views, pins, ledger, only=only)

    @contextmanager
    def _recorded(self) -> Iterator[Ledger]:
        with blaming_the_machine(), self._door.one_call(), Ledger(self._door.journal) as ledger:
            yield ledger

    def _side_by_side(
        self,
        views: Sequence[View],
        pins: Pins,
        ledger: Ledger,
        *,
        full: bool = False,
        only: Collection[str] | None = None,
    ) -> list[Refreshed]:
        """Views refreshed, each after those it reads; `views` has these first.

        With `only` some tables', what they read of each other moves too.
        """
        running: dict[str, Future[Refreshed]] = {}
        own = {view.stored for view in views}

        def after(view: View, below: list[Future[Refreshed]]) -> Refreshed:
            for input_refresh in below:
                input_refresh.result()
            some = None if only is None else [t for t in view.inputs if t in own or t in only]
            return self._bring(view, pins, ledger, full=full, only=some)

        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for view in views:
                below = [running[t] for t in view.inputs if t in running]
                running[view.stored] = pool.submit(after, view, below)
        return [done.result() for done in running.values()]

    def _bring(
        self,
        view: View,
        pins: Pins,
        ledger: Ledger,
        *,
        full: bool = False,
        only: list[str] | None = None,
    ) -> Refreshed:
        done = refresh(self._door, view.name, full=full, only=only, pins=pins)
        for each in (*done.parts, done):
            ledger.add(each.record)
            learn(self._door, each.record)
        self.last[view.stored] = done
        self._after()
        return done

    def _below(self, view: View) -> list[View]:
        """The views that a view reads, directly or not, in the order to refresh them."""
        wanted: set[str] = set()
        every = {v.stored: v for v in all_views(self._door)}
        own = view.definition.sampling

        def visit(v: View) -> None:
            for table in v.inputs:
                # A sample is brought up to date so that its view need not be.
                if own is not None and table in every and every[table].name == own.of:
                    continue
                if table in every and table not in wanted:
                    wanted.add(table)
                    visit(every[table])

        visit(view)
        return [v for stored, v in every.items() if stored in wanted]


def refuse_broken(broken: list[Broken]) -> None:
    """An error for views that cannot be compiled, when the others are fresh."""
    if broken:
        names = ", ".join(repr(view.name) for view in broken)
        first = broken[0].error
        raise Invalid(
            f"every view is fresh but {names}: {first.message}",
            detail=first.detail,
            hint=first.hint,
            reason=first.reason,
        ) from first
