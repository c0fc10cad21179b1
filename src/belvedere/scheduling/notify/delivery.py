"""Deliver a notification to a webhook, a command or a file.

Webhooks are sent to allowed addresses only, and follow no redirection. A command is a list of
arguments, never a line for a shell. A line of a file that a kill left unfinished is cut off and
written again, but only in a file that begins with Belvedere's header; other files are only appended to.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from belvedere.errors import Invalid
from belvedere.storage.private_files import ONLY_OWNER, NotAFile

if TYPE_CHECKING:
    from belvedere.scheduling.notify.subscriptions import Subscription

TIMEOUT = 30.0
HEADER = b'{"belvedere": "notifications", "format": 1}\n'
"""The first line of files that Belvedere created; nothing is ever cut off from others."""
IDENTIFIER = "BELVEDERE_NOTIFICATION"


class DeliveryFailed(Exception):
    """A delivery failed and should be tried again."""


def deliver(
    subscription: Subscription,
    message: Mapping[str, Any],
    *,
    allowed: Sequence[str] = (),
    again: bool = False,
) -> None:
    """Send a notification; `again` says that an earlier try may have arrived."""
    text = json.dumps(message, ensure_ascii=False)
    refuse_unless_allowed(subscription, allowed)
    if subscription.webhook:
        _post(subscription.webhook, text, str(message["id"]))
    elif subscription.command:
        _run_command(subscription.command, text, str(message["id"]))
    else:
        _append(Path(subscription.jsonl), text, str(message["id"]), again=again)


def refuse_unless_allowed(subscription: Subscription, allowed: Sequence[str]) -> None:
    """Invalid if the webhook's address is not allowed."""
    if subscription.webhook:
        refuse_address(subscription.webhook, allowed)


def refuse_address(url: str, allowed: Sequence[str]) -> None:
    """Invalid unless an address is an allowed one, or below it."""
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
        raise DeliveryFailed(str(error)) from error


def _run_command(command: Sequence[str], text: str, identifier: str) -> None:
    environment = {**os.environ, IDENTIFIER: identifier}
    try:
        process = subprocess.run(
            list(command),
            input=text,
            text=True,
            env=environment,
            timeout=TIMEOUT,
            check=False,
            capture_output=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeliveryFailed(str(error)) from error
    if process.returncode:
        raise DeliveryFailed(
            f"{command[0]} ended with {process.returncode}: {process.stderr[-200:]}"
        )


def _append(path: Path, text: str, identifier: str, *, again: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            ended = _end_last_line(file)
            if again and _contains(file, identifier):
                return
            file.seek(0, os.SEEK_END)
            file.write((b"" if ended else b"\n") + text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DeliveryFailed(str(error)) from error


def _open(path: Path) -> BinaryIO:
    """Open the file, or create it; OSError for a link or anything that is no file."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, ONLY_OWNER)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFile(errno.EINVAL, "it is not a file", str(path))
    return os.fdopen(descriptor, "a+b")


def _end_last_line(file: BinaryIO) -> bool:
    """Cut off an unfinished last line, in files with our header; whether the last line is complete.

    A new file gets the header.
    """
    size = file.seek(0, os.SEEK_END)
    if not size:
        file.write(HEADER)
        return True
    file.seek(0)
    ours = file.read(len(HEADER)) == HEADER
    end = _end_of_lines(file, size)
    if ours and end < size:
        file.truncate(end)
    return ours or end == size


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """The end of the last complete line."""
    end = size
    while end:
        start = max(end - 65536, 0)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def _contains(file: BinaryIO, identifier: str) -> bool:
    """Whether the file has a notification."""
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
