"""Commands of samples: `estimate`, `clean` and `sampling-plan`."""

from __future__ import annotations

import argparse

from belvedere.cli.command import OK, AddCommand, offline_lake, open_lake, print_json, print_result
from belvedere.cli.progress import working


def add_commands(command: AddCommand) -> None:
    """Add the commands."""
    estimate = command(
        "estimate", _estimate, "estimate the fresh answer to a query on a sampled view"
    )
    estimate.add_argument("query", metavar="SELECT", help="a query on a view that has a sample")
    estimate.add_argument(
        "--confidence", type=float, default=95, metavar="PERCENT", help="default: 95"
    )
    estimate.add_argument("--method", default="AUTO", metavar="AUTO|AQP|CORR", help="default: AUTO")
    estimate.add_argument("--no-clean", action="store_true", help="do not clean the sample first")
    estimate.add_argument("--explain", action="store_true", help="show where the answer comes from")
    estimate.add_argument("--plot", metavar="FILE", help="plot the estimates and the stale answers")
    clean = command("clean", _clean, "refresh the sample of a view, not the view")
    clean.add_argument("view", metavar="VIEW")
    _add_sampling_plan(command)


def _add_sampling_plan(command: AddCommand) -> None:
    plan = command(
        "sampling-plan",
        _sampling_plan,
        "find the best sampling ratio for refreshes and cleanings that share the machine",
    )
    plan.add_argument("view", metavar="VIEW")
    plan.add_argument(
        "--rate",
        type=float,
        metavar="ROWS",
        help="changed rows that arrive in a second (default: as in the tables' logs)",
    )
    plan.add_argument(
        "--refresh-cost",
        type=_cost,
        metavar="SECONDS,PER_ROW",
        help="a refresh: fixed seconds, seconds per changed row (default: as recorded)",
    )
    plan.add_argument(
        "--clean-cost",
        type=_cost,
        metavar="SECONDS,PER_ROW",
        help="a cleaning: fixed seconds, seconds per sampled changed row (default: as recorded)",
    )
    plan.add_argument(
        "--spread",
        type=float,
        default=1.5,
        metavar="X",
        help="how unequal changed rows are: root mean square over mean (default: %(default)s)",
    )
    plan.add_argument(
        "--run",
        dest="run_seconds",
        type=float,
        metavar="SECONDS",
        help="then refresh the view and clean its present sample as planned, for so long",
    )


def _cost(text: str) -> tuple[float, float]:
    """A cost as `SECONDS,PER_ROW`.

    >>> _cost("2,0.0004")
    (2.0, 0.0004)
    """
    fixed, per_row = text.split(",")
    return float(fixed), float(per_row)


def _estimate(arguments: argparse.Namespace) -> int:
    with open_lake(arguments) as lake, working("estimating"):
        answer = lake.estimate(
            arguments.query,
            confidence=arguments.confidence / 100,
            method=arguments.method,
            clean=not arguments.no_clean,
        )
    if arguments.json:
        print_json(answer.arrow().to_pylist())
    else:
        print(answer)
        if arguments.explain:
            print(f"\n{answer.explain()}")
    if arguments.plot:
        answer.plot(arguments.plot)
    return OK


def _clean(arguments: argparse.Namespace) -> int:
    with open_lake(arguments) as lake, working(f"cleaning the sample of {arguments.view}"):
        outcome = lake.clean(arguments.view)
    print_json(outcome.refreshes) if arguments.json else print(outcome)
    return OK


def _sampling_plan(arguments: argparse.Namespace) -> int:
    from belvedere.samples.sampling_plan import sampling_plan

    plan = sampling_plan(
        offline_lake(arguments),
        arguments.view,
        rate=arguments.rate,
        refresh_cost=arguments.refresh_cost,
        clean_cost=arguments.clean_cost,
        spread=arguments.spread,
    )
    print_result(arguments, plan)
    if arguments.run_seconds is not None:
        with open_lake(arguments) as lake, working(f"refreshing and cleaning {plan.view}"):
            jobs = plan.run(lake, arguments.run_seconds)
        if not arguments.json:
            refreshes = sum(job.what == "refresh" for job in jobs)
            print(f"ran {refreshes} refreshes and {len(jobs) - refreshes} cleanings")
    return OK
