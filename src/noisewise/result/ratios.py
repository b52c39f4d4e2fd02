"""Ratios that coefficients stand for: odds, rates, hazards, times, by changes one can picture."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.models import family_from_text
from noisewise.models.families import Family
from noisewise.models.families.ratios import Ratio
from noisewise.result.request import Request

Draws = Mapping[str, np.ndarray]
_SDS = 1.8


class Change(NamedTuple):
    """A change of one feature, the others held equal."""

    label: str
    """As in ``age +10`` or ``sex=male``."""
    words: str
    """As in "age higher by 10" or "sex male instead of female"."""
    step: float
    """In the encoded feature."""


class Effect(NamedTuple):
    """What a change of a feature multiplies, and draws of the factor."""

    label: str
    change: str
    ratio: Ratio
    draws: np.ndarray

    def __repr__(self) -> str:
        low, middle, high = np.quantile(self.draws, [0.025, 0.5, 0.975])
        of = f"{len(self.draws)} draws"
        return f"Effect({self.label}: {self.ratio.name} {middle:.3g} [{low:.3g}, {high:.3g}], {of})"


def family_of(request: Request) -> Family | None:
    """The family of a ready-made regression, with what it takes from the target's declaration.

    Args:
        request: Of a result.
    """
    found = family_from_text(request.model)
    columns = [request.schema[name] for name in request.targets if name in request.schema]
    return found.kind.of(*columns) if found is not None and columns else None


def effects(request: Request, draws: Draws, coordinates: Mapping[str, list[str]]) -> list[Effect]:
    """Of a regression whose coefficients' exponentials mean something; else none.

    Args:
        request: Of the result.
        draws: Of the posterior.
        coordinates: Names along the latents' last axes, which ready-made models alone have.
    """
    family = family_of(request) if "coefficients" in coordinates else None
    if family is None or not all(np.isfinite(values).all() for values in draws.values()):
        return []
    width = sum("group" not in entry for entry in request.encoding)
    slopes = np.asarray(draws["coefficients"], float).reshape(-1, family.predictors, width)
    found = []
    levels = request.schema[request.targets[0]].categories or ("",)
    for number in range(family.predictors):
        # Of several predictors, each is of a level against the reference.
        level = levels[1 + number] if family.predictors > 1 else ""
        names = {"target": request.targets[0], "event": request.targets[-1]}
        names |= {"level": level, "reference": levels[0]}
        for place, change in _changes(request):
            moved = slopes[:, number, place : place + 1] * change.step
            for ratio, factor in family.ratios(moved, draws).items():
                label = f"{level}: {change.label}" if level else change.label
                found.append(Effect(label, change.words, ratio.about(**names), factor[:, 0]))
    return sorted(found, key=_by_kind([effect.ratio.name for effect in found]))


def refuse_without_ratios(
    request: Request, draws: Draws, coordinates: Mapping[str, list[str]]
) -> None:
    """Say why a result has no ratios, and what there is instead; a regression without features has
    none, and is not refused.

    Args:
        request: Of the result.
        draws: Of the posterior.
        coordinates: Names along the latents' last axes.
    """
    family = family_of(request) if "coefficients" in coordinates else None
    if family is None:
        raise NoisewiseError(f"the model {request.model} has no ratios: use summary()")
    if family.ratio is None:
        raise NoisewiseError(
            f"the coefficients of {request.model} are no logarithms of ratios: "
            "summary(per_unit=True) has them per original unit"
        )
    if not all(np.isfinite(values).all() for values in draws.values()):
        raise NoisewiseError("the fit diverged: it has no ratios")


def _by_kind(names: list[str]) -> Any:
    """Kinds of ratio one after the other, in the order in which they are met."""
    order = list(dict.fromkeys(names))
    return lambda effect: order.index(effect.ratio.name)


def _changes(request: Request) -> Iterator[tuple[int, Change]]:
    """The places of the design matrix's columns that are features as they are declared."""
    for place, entry in enumerate(request.encoding):
        if entry["column"] in request.schema and "group" not in entry:
            formula = request.formula is not None
            change = _of_term(entry, request) if formula else _change(entry, request.schema)
            if change is not None:
                yield place, change


def _change(entry: Mapping[str, Any], schema: Schema) -> Change | None:
    name, column = str(entry["name"]), schema[entry["column"]]
    if entry.get("missing"):
        return Change(name, f"{column.name} missing instead of known", 1.0)
    if column.kind == "category":
        return _level(name, column)
    if column.kind == "binary":
        return Change(name, f"{name} 1 instead of 0", 1.0) if name == column.name else None
    if name != column.name and not (column.shape and name.startswith(f"{column.name}[")):
        return None
    scale = float(entry["scale"])
    step = readable_step(scale if column.sd is not None else scale / 2)
    said = f"{step:,g}"
    return Change(f"{name} +{said}", f"{name} higher by {said}", step / scale)


def _of_term(entry: Mapping[str, Any], request: Request) -> Change | None:
    """Of a column that is in one term of the formula alone, as itself or by its levels: where it is
    in others, a change of it depends on what is in those."""
    column = request.schema[entry["column"]]
    if entry.get("missing"):
        return Change(entry["name"], f"{column.name} missing instead of known", 1.0)
    told = [e for e in request.encoding if not e.get("missing") and "group" not in e]
    if any(column.name in each["columns"] and each["term"] != entry["term"] for each in told):
        return None
    if "level" in entry:
        words = f"{column.name} {entry['level']} instead of {entry['reference']}"
        return Change(entry["name"], words, 1.0)
    if entry["term"] != column.name or column.categories is not None:
        return None
    if column.kind == "binary":
        return Change(entry["name"], f"{entry['name']} 1 instead of 0", 1.0)
    per_unit = float(entry["original"][entry["name"]])
    step = readable_step(1 / per_unit)
    said = f"{step:,g}"
    return Change(f"{entry['name']} +{said}", f"{entry['name']} higher by {said}", step * per_unit)


def _level(name: str, column: Column) -> Change | None:
    reference, *others = column.categories or ()
    start = f"{column.name}="
    if not name.startswith(start) or name[len(start) :] not in others:
        return None
    return Change(name, f"{column.name} {name[len(start) :]} instead of {reference}", 1.0)


def readable_step(sd: float) -> float:
    """A change in the column's unit that is neither a grain nor more than people differ by: the
    largest power of ten below some two sds.

    Args:
        sd: As declared, or a quarter of the range.

    >>> readable_step(15.0), readable_step(5.0), readable_step(0.6), readable_step(25_000.0)
    (10.0, 1.0, 1.0, 10000.0)
    """
    return float(f"1e{math.floor(math.log10(_SDS * sd))}")
