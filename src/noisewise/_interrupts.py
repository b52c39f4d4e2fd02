"""Ctrl-C ends the command line in one line, whatever the process is doing just then."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_GRACE = 3.0
"""Seconds that a command has to clean up after itself."""
_LINE = "stopped: nothing half-written is left, and nothing more was released"
EXIT_CODE = 130
_STATE: dict[str, Any] = {"asked": False, "said": False, "next": lambda: ""}
_LEFT_TO_DO: list[Callable[[], Any]] = []


def watch() -> None:
    """See to it that an interrupt ends this process, even one that Python loses.

    A KeyboardInterrupt that is raised in a destructor or in a callback of compiled code is
    swallowed there, and none is raised at all while compiled code runs. So a thread of its own
    waits for the signal, and ends the process if it has not ended by itself soon after.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(reader,), daemon=True).start()
    usual = sys.unraisablehook

    def quiet(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            usual(lost)

    sys.unraisablehook = quiet


def _wait(reader: int) -> None:
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    _STATE["asked"] = True
    threading.Event().wait(_GRACE)
    for clean_up in _LEFT_TO_DO:
        with suppress(Exception):
            clean_up()
    say_stopped()
    os._exit(EXIT_CODE)


def before_any_end(clean_up: Callable[[], Any]) -> None:
    """Also where an interrupt ends the process without unwinding it: rows do not stay on the disk.

    Args:
        clean_up: What may be done twice, and in any thread.
    """
    _LEFT_TO_DO.append(clean_up)


def asked_to_stop() -> bool:
    """Whether an interrupt came, as far as the watching thread knows."""
    return bool(_STATE["asked"])


def say_next(words: Callable[[], str]) -> None:
    """How the line ends: what to do next, as it is when the interrupt comes."""
    _STATE["next"] = words


def say_stopped() -> None:
    """The one line, once."""
    if not _STATE["said"]:
        _STATE["said"] = True
        os.write(2, f"{_LINE}{_STATE['next']()}\n".encode())
