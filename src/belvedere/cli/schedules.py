"""Commands of response limits: `calibrate`, `plan` and `serve`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from belvedere.cli.command import (
    OK,
    AddCommand,
    offline_lake,
    open_lake,
    print_json,
    print_result,
)
from belvedere.cli.progress import working
from belvedere.errors import Invalid

if TYPE_CHECKING:
    from belvedere.scheduling.serve.preview import Forecast


def add_commands(command: AddCommand) -> None:
    """Add the commands."""
    calibrate = command("calibrate", _calibrate, "measure the cost of changes of a view's tables")
    calibrate.add_argument("view", metavar="VIEW")
    calibrate.add_argument(
        "--picture", metavar="FILE", help="plot the cost functions, as .svg or .png"
    )
    calibrate.add_argument(
        "--live",
        action="store_true",
        help="measure on the view, with the changes that are pending, instead of on a copy",
    )
    plan = command("plan", _plan, "show what the service would do for a view, and the cost of that")
    plan.add_argument("view", metavar="VIEW")
    plan.add_argument(
        "--arrivals",
        metavar="FILE",
        default="observed",
        help="a file of seconds,table,changes (default: the arrivals in the tables' logs)",
    )
    plan.add_argument("--picture", metavar="FILE", help="plot the pending changes, as .svg or .png")
    _add_serve(command)


def _add_serve(command: AddCommand) -> None:
    serve = command("serve", _serve, "keep the response limits of the lake's views")
    serve.add_argument(
        "--simulate", metavar="FILE", help="simulate on these arrivals; no data is read or written"
    )
    serve.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)"
    )
    serve.add_argument(
        "--port", type=int, default=8799, help="default: %(default)s; 0 takes any free port"
    )
    serve.add_argument("--token-file", metavar="FILE", help="a file with the token of requests")
    serve.add_argument(
        "--every",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="the time between two looks at the tables' logs (default: %(default)s)",
    )
    serve.add_argument("--policy", choices=["AUTO", "NAIVE", "ONLINE", "RECEDING"], default="AUTO")
    serve.add_argument(
        "--allow-webhook",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="allow webhooks to this address and below it; repeat for more",
    )


def _calibrate(arguments: argparse.Namespace) -> int:
    from belvedere.views.catalog import the_view

    the_view(offline_lake(arguments), arguments.view)
    with open_lake(arguments) as lake, working(f"calibrating {arguments.view}"):
        calibration = lake.calibrate(arguments.view, live=arguments.live)
    if arguments.picture:
        from belvedere.scheduling.plots import draw_curves

        draw_curves(calibration, arguments.picture)
    print_result(arguments, calibration)
    return OK


def _plan(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.schedules import the_schedule
    from belvedere.scheduling.serve.preview import plan

    lake = offline_lake(arguments)
    forecast = plan(lake, arguments.view, arguments.arrivals)
    _print_forecast(arguments, forecast, the_schedule(lake, arguments.view).tables)
    return OK


def _print_forecast(
    arguments: argparse.Namespace, forecast: Forecast, tables: tuple[str, ...]
) -> None:
    from belvedere.scheduling.plots import cost_bars, draw_pending, pending_lines

    if getattr(arguments, "picture", None):
        draw_pending(forecast.policies, tables, arguments.picture)
    if arguments.json:
        costs = {r.policy: r.cost for r in forecast.policies}
        violations = {r.policy: r.violations for r in forecast.policies}
        print_json(
            {
                "costs": costs,
                "chosen": forecast.chosen,
                "best": forecast.best,
                "violations": violations,
            }
        )
        return
    print(forecast)
    print()
    print(cost_bars({r.policy: r.cost for r in forecast.policies}))
    if len(forecast.views) == 1:
        print()
        print(pending_lines(forecast.run(forecast.chosen), tables))


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.every <= 0:
        raise Invalid(
            "--every is not more than 0", hint="give a number of seconds", reason="BAD_VALUE"
        )
    return _simulate(arguments) if arguments.simulate else _run(arguments)


def _simulate(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.model.arrivals import read_arrivals
    from belvedere.scheduling.schedules import schedules
    from belvedere.scheduling.serve.preview import forecast_views

    scheduled = [s for s in schedules(offline_lake(arguments)) if s.calibration is not None]
    if not scheduled:
        raise Invalid(
            "no view has a response limit and a calibration",
            hint="ALTER MATERIALIZED VIEW v SET RESPONSE LIMIT 5 SECONDS, then calibrate it",
            reason="NOTHING_TO_KEEP",
        )
    tables = tuple(dict.fromkeys(t for s in scheduled for t in s.tables))
    forecast = forecast_views(scheduled, read_arrivals(arguments.simulate, tables), arguments.every)
    _print_forecast(arguments, forecast, scheduled[0].tables)
    return OK


def _run(arguments: argparse.Namespace) -> int:
    from belvedere.scheduling.serve.endpoint import serve_http

    token = _token(arguments.token_file)

    def log(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with open_lake(arguments) as lake:
        service = lake.serve(
            every=arguments.every,
            policy=arguments.policy,
            allowed=arguments.allow_webhook,
            log=log,
        )
        server = serve_http(service, arguments.host, arguments.port, token)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: service.stop())
        host, port = server.server_address[:2]
        print(f"keeping {', '.join(service.views)}; http://{host!s}:{port}", flush=True)
        service.run()
        server.shutdown()
    print("stopped", flush=True)
    return OK


def _token(path: str | None) -> str:
    if path is None:
        return ""
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Invalid(f"cannot read {path}", detail=str(error), reason="UNREADABLE_FILE") from error
    if not token:
        raise Invalid(
            f"{path} contains no token", hint="write the token into it", reason="UNREADABLE_FILE"
        )
    return token
