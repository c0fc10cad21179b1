"""Calls that refresh views: each after those it reads, with one state of every table, recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from belvedere.derivations.advance import Call, advance, call_of
from belvedere.derivations.cost_history import learn
from belvedere.derivations.outcome import Outcome
from belvedere.errors import Invalid
from belvedere.lake.sessions.machine import blaming_the_machine
from belvedere.lake.spark_lake import SparkLake
from belvedere.views.catalog import Broken, all_views, sound_and_broken
from belvedere.views.definition import View
from belvedere.views.kind import Views

SIDE_BY_SIDE = 2
"""How many views refresh at once: most of a small refresh is waiting for the driver."""


class Calls:
    """The refreshes of a lake's views; `after` is called after each."""

    def __init__(self, lake: SparkLake, after: Callable[[], None]) -> None:
        self._lake = lake
        self._views = Views(lake)
        self._after = after
        self.last: dict[str, Outcome] = {}
        """The last refresh here of each stored table."""

    def everything(self, *, full: bool = False) -> tuple[list[Outcome], list[Broken]]:
        """Refresh every sound view, side by side; also returns those that cannot be compiled."""
        views, broken = sound_and_broken(self._lake)
        with self._call(views) as call:
            return self._side_by_side(views, call, full=full), broken

    def fresh(self, view: View, *, full: bool = False) -> Outcome:
        """Refresh a view, after the views it reads."""
        below = self._below(view)
        with self._call([*below, view]) as call:
            for needed in below:
                self._advance(needed, call)
            return self._advance(view, call, full=full)

    def samples(self, view: View, samples: Sequence[View]) -> list[Outcome]:
        """Refresh the samples of a view, after the views they read; the view stays as it is."""
        below = [v for v in self._below(samples[0]) if v.stored != view.stored]
        with self._call([*below, *samples]) as call:
            for needed in below:
                self._advance(needed, call)
            return [self._advance(sample, call) for sample in samples]

    def advance(self, view: View, only: list[str]) -> Outcome:
        """Apply only some tables' changes to a view."""
        with self._call() as call:
            return self._advance(view, call, only=only)

    def together(self, views: Sequence[View], only: Collection[str] | None = None) -> list[Outcome]:
        """Refresh views that belong together, or apply only some tables' changes to them."""
        with self._call(views) as call:
            return self._side_by_side(views, call, only=only)

    @contextmanager
    def _call(self, views: Sequence[View] = ()) -> Iterator[Call]:
        with blaming_the_machine(), self._lake.one_call(), call_of(self._lake, views) as call:
            yield call

    def _side_by_side(
        self,
        views: Sequence[View],
        call: Call,
        *,
        full: bool = False,
        only: Collection[str] | None = None,
    ) -> list[Outcome]:
        """Refresh views, each after those it reads; `views` has these first.

        With `only` some tables', what they read of each other moves too.
        """
        running: dict[str, Future[Outcome]] = {}
        own = {view.stored for view in views}

        def after(view: View, below: list[Future[Outcome]]) -> Outcome:
            for input_refresh in below:
                input_refresh.result()
            some = None if only is None else [t for t in view.inputs if t in own or t in only]
            return self._advance(view, call, full=full, only=some)

        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for view in views:
                below = [running[t] for t in view.inputs if t in running]
                running[view.stored] = pool.submit(after, view, below)
        return [future.result() for future in running.values()]

    def _advance(
        self, view: View, call: Call, *, full: bool = False, only: list[str] | None = None
    ) -> Outcome:
        outcome = advance(self._views, view.name, call, full=full, only=only)
        for each in (*outcome.inner, outcome):
            learn(self._lake, each.record)
        self.last[view.stored] = outcome
        self._after()
        return outcome

    def _below(self, view: View) -> list[View]:
        """The views that a view reads, directly or not, in the order to refresh them."""
        wanted: set[str] = set()
        every = {v.stored: v for v in all_views(self._lake)}
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
