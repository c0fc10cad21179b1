"""Delivery: a notification to a webhook, a command or a file.

Webhooks go only where the service was told they may, and follow no redirection. A command is a
list of arguments, never a line for a shell. A line of a file is written whole or, after a kill,
cut off and written again.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from belvedere.errors import Invalid

if TYPE_CHECKING:
    from belvedere.scheduling.subscriptions import Subscription

TIMEOUT = 30.0
IDENTIFIER = "BELVEDERE_NOTIFICATION"


class Undelivered(Exception):
    """To be tried again."""


def deliver(
    subscription: Subscription,
    message: Mapping[str, Any],
    *,
    allowed: Sequence[str] = (),
    again: bool = False,
) -> None:
    """Send a notification; `again` is whether an earlier try may have arrived."""
    text = json.dumps(message, ensure_ascii=False)
    refuse_unless_allowed(subscription, allowed)
    if subscription.webhook:
        _post(subscription.webhook, text, str(message["id"]))
    elif subscription.command:
        _run(subscription.command, text, str(message["id"]))
    else:
        _append(Path(subscription.jsonl), text, str(message["id"]), again=again)


def refuse_unless_allowed(subscription: Subscription, allowed: Sequence[str]) -> None:
    """Invalid if a webhook goes where none may."""
    if subscription.webhook:
        refuse_address(subscription.webhook, allowed)


def refuse_address(url: str, allowed: Sequence[str]) -> None:
    """Invalid unless an address is, or is below, one that is allowed."""
    wanted = urlsplit(url)
    for prefix in allowed:
        may = urlsplit(prefix)
        same = (wanted.scheme, wanted.hostname, _port(wanted)) == (
            may.scheme,
            may.hostname,
            _port(may),
        )
        below = may.path.rstrip("/") + "/"
        if same and wanted.hostname and (wanted.path.rstrip("/") + "/").startswith(below):
            return
    raise Invalid(
        f"webhooks to {wanted.scheme}://{wanted.netloc} are not allowed",
        hint="belvedere serve --allow-webhook ADDRESS",
        reason="WEBHOOK_NOT_ALLOWED",
    )


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(url: str, text: str, identifier: str) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": identifier}
    request = urllib.request.Request(url, text.encode(), headers, method="POST")
    opener = urllib.request.build_opener(_NoRedirection, urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT) as response:
            response.read()
    except (urllib.error.URLError, OSError) as error:
        raise Undelivered(str(error)) from error


def _run(command: Sequence[str], text: str, identifier: str) -> None:
    environment = {**os.environ, IDENTIFIER: identifier}
    try:
        done = subprocess.run(
            list(command),
            input=text,
            text=True,
            env=environment,
            timeout=TIMEOUT,
            check=False,
            capture_output=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Undelivered(str(error)) from error
    if done.returncode:
        raise Undelivered(f"{command[0]} ended with {done.returncode}: {done.stderr[-200:]}")


def _append(path: Path, text: str, identifier: str, *, again: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _cut_off(file)
            if again and _has(file, identifier):
                return
            file.seek(0, os.SEEK_END)
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Undelivered(str(error)) from error


def _cut_off(file: Any) -> None:
    """Take away a line that a kill left unfinished."""
    size = end = file.seek(0, os.SEEK_END)
    while end:
        start = max(end - 65536, 0)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end < size:
        file.truncate(end)


def _has(file: Any, identifier: str) -> bool:
    """Whether a notification is in the file."""
    file.seek(0)
    mark = json.dumps({"id": identifier})[1:-1].encode()
    return any(mark in line and _id(line) == identifier for line in file)


def _id(line: bytes) -> str:
    try:
        return str(json.loads(line).get("id"))
    except (ValueError, AttributeError):
        return ""


def _port(parts: Any) -> int | None:
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
