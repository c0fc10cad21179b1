"""The HTTP interface of the service: health, metrics and refresh requests.

    GET  /health            whether the service works
    GET  /metrics           for Prometheus
    GET  /views             the views that the service keeps: pending changes, limit, costs
    POST /refresh/NAME      refresh a view and wait; 200 with the answer, also if it is late

It listens on this machine only, unless a token is given, which every request must carry.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from belvedere.errors import BelvedereError, Invalid
from belvedere.scheduling.serve.served_view import ServedView
from belvedere.scheduling.serve.service import SchedulingService

LOOPBACK = "127.0.0.1"


def serve_http(
    service: SchedulingService, host: str, port: int, token: str = ""
) -> ThreadingHTTPServer:
    """Listen in a thread of its own; port 0 takes any free port."""
    if not _is_loopback(host) and not token:
        raise Invalid(
            f"listening on {host} needs a token",
            hint="give --token-file FILE, or leave out --host to listen on this machine only",
            reason="TOKEN_NEEDED",
        )

    class Handler(_Handler):
        pass

    Handler.service, Handler.token = service, token
    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise Invalid(
            f"cannot listen on {host}:{port}", detail=str(error), reason="CANNOT_LISTEN"
        ) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    service: SchedulingService
    token: str
    server_version = "belvedere"

    def do_GET(self) -> None:
        if not self._is_admitted():
            return
        match self.path:
            case "/health":
                trouble = self.service.trouble
                status = {"status": "trouble" if trouble else "ok", "trouble": trouble}
                self._send_json(
                    503 if trouble else 200, {**status, "views": list(self.service.views)}
                )
            case "/metrics":
                self._send(200, metrics(self.service), "text/plain; version=0.0.4")
            case "/views":
                self._send_json(200, [_view(view) for view in self.service.views.values()])
            case _:
                self._send_json(404, {"error": f"no such place: {self.path}"})

    def do_POST(self) -> None:
        if not self._is_admitted():
            return
        if not self.path.startswith("/refresh/"):
            self._send_json(404, {"error": f"no such place: {self.path}"})
            return
        try:
            answer = self.service.request(unquote(self.path.removeprefix("/refresh/")))
        except BelvedereError as error:
            self._send_json(404 if error.reason == "NOT_KEPT" else 503, {"error": str(error)})
            return
        self._send_json(500 if answer.error else 200, asdict(answer))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: requests are counted."""

    def _is_admitted(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.token and not hmac.compare_digest(given.encode(), self.token.encode()):
            self._send_json(401, {"error": "a token is needed"})
            return False
        return True

    def _send_json(self, status: int, content: object) -> None:
        self._send(status, json.dumps(content), "application/json")

    def _send(self, status: int, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def metrics(service: SchedulingService) -> str:
    """The counters of the service in the format of Prometheus."""
    lines: list[str] = []

    def gauge(name: str, text: str, kind: str = "gauge") -> None:
        lines.extend((f"# HELP belvedere_{name} {text}", f"# TYPE belvedere_{name} {kind}"))

    def value(name: str, number: float, **labels: str) -> None:
        label_text = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"belvedere_{name}{{{label_text}}} {number:g}")

    every = [(view.scheduler.name, view) for view in service.views.values()]
    gauge("pending_changes", "Changes of a table that a view has not applied.")
    for name, view in every:
        for table, count in zip(view.scheduler.tables, view.scheduler.pending, strict=True):
            value("pending_changes", count, view=name, table=table)
    single: dict[str, tuple[str, str, Callable[[ServedView], float]]] = {
        "response_limit_seconds": ("The limit.", "gauge", lambda k: k.scheduler.terms.limit),
        "refresh_due_seconds": (
            "How long a refresh would take.",
            "gauge",
            lambda k: k.scheduler.refresh_seconds(),
        ),
        "actions_total": ("Advances and refreshes.", "counter", lambda k: k.actions),
        "requests_total": ("Requests that were answered.", "counter", lambda k: k.requests),
        "predicted_seconds_total": ("Predicted cost.", "counter", lambda k: k.predicted),
        "spent_seconds_total": ("Actual cost.", "counter", lambda k: k.spent),
        "recalibrations_total": (
            "Times that costs were off for long and were corrected.",
            "counter",
            lambda k: k.recalibrations,
        ),
    }
    for metric, (text, kind, of) in single.items():
        gauge(metric, text, kind)
        for name, view in every:
            value(metric, of(view), view=name)
    gauge("violations_total", "Answers after the limit, by cause.", "counter")
    for name, view in every:
        value("violations_total", view.violations.total(), view=name, cause="any")
        for cause, number in sorted(view.violations.items()):
            value("violations_total", number, view=name, cause=cause)
    return "\n".join(lines) + "\n"


def _view(view: ServedView) -> dict[str, Any]:
    scheduler = view.scheduler
    return {
        "view": scheduler.name,
        "limit": scheduler.terms.limit,
        "due": scheduler.refresh_seconds(),
        "policy": scheduler.policy.name,
        "pending": dict(zip(scheduler.tables, scheduler.pending, strict=True)),
        "actions": view.actions,
        "predicted": view.predicted,
        "spent": view.spent,
        "violations": dict(view.violations),
    }


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
