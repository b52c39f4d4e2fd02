"""Plans on disk: TOML that people can read and edit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from noisewise._files import read_toml, whole_file
from noisewise._validate import NoisewiseError, shown

_HEAD = """\
# A noisewise plan: settings chosen on simulated data, before a single row is touched.
# Use it:  noisewise fit DATA --schema S.toml --plan THIS.toml ...
# Settings may be edited, from public knowledge only: tuning them on the data would not be private.

"""
_FORMAT = "noisewise-plan"


class Sections(NamedTuple):
    """A plan as a file holds it."""

    made_for: dict[str, Any]
    forecast: dict[str, Any]
    settings: dict[str, Any]
    source: str = ""
    """Where the settings are from, as far as the file can tell."""


def write_plan(plan: Sections, path: Path) -> Path:
    """Write the file, whole or not at all."""
    import tomli_w

    settings = _rounded({name: v for name, v in plan.settings.items() if v is not None})
    plain = {
        "format": _FORMAT,
        "made_for": plan.made_for | {"settings_digest": _digest(settings)},
        "forecast": plan.forecast,
        "settings": settings,
    }
    text = _HEAD + tomli_w.dumps(_rounded(plain))
    with whole_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8")
    return path


def _digest(settings: dict[str, Any]) -> str:
    """Tells settings as they were planned from settings edited since."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _rounded(plain: Any) -> Any:
    """Eight digits: all that single precision holds, and short enough to read."""
    if isinstance(plain, dict):
        return {name: _rounded(value) for name, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [_rounded(value) for value in plain]
    return float(f"{plain:.8g}") if isinstance(plain, float) else plain


@contextmanager
def reading(path: Path) -> Iterator[Sections]:
    """What a plan file holds; one line says what is wrong with a bad one."""
    plain = read_toml(path, "plan")
    if plain.get("format") != _FORMAT:
        raise NoisewiseError(f"{shown(str(path))} is not a plan: make one with `noisewise plan`")
    try:
        made_for = plain["made_for"]
        source = f"plan file {path.name}: {made_for['source']}"
        if _digest(plain["settings"]) != made_for["settings_digest"]:
            source = f"plan file {path.name}, edited by hand"
        yield Sections(made_for, plain["forecast"], plain["settings"], source)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        if isinstance(error, KeyError):
            reason = f"{reason} is missing"
        raise NoisewiseError(
            f"the plan {shown(str(path))} cannot be used ({reason}): correct it, or plan again"
        ) from None
