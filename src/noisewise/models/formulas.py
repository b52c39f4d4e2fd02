"""A regression from a formula: its family, its priors, and how the table becomes its arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpyro.distributions as dist

from noisewise._validate import NoisewiseError, listed, shown
from noisewise.data import Column, FormulaEncoder, Schema
from noisewise.models.binding import bind_formula
from noisewise.models.families import FAMILIES
from noisewise.models.glm import Glm, OwnPrior
from noisewise.models.grouped import GroupedGlm, GroupEffects
from noisewise.models.named import family_from_text, with_priors
from noisewise.models.row_view import RowView

Priors: TypeAlias = Mapping[str, Any]
"""Of single coefficients, by their names: a prior sd, or a normal distribution."""
_USUAL = {"real": "linear", "count": "poisson", "binary": "logistic"}


class FormulaModel(NamedTuple):
    """A regression and its arguments."""

    model: Glm
    view: RowView


def formula_model(
    formula: str, schema: Schema, family: str | None = None, priors: Priors | None = None
) -> FormulaModel:
    """The regression that a formula and a family describe.

    Args:
        formula: Such as ``visits ~ age * sex``.
        schema: What is publicly known of the table: it decides columns, levels and all state.
        family: One of `FAMILIES`; by default what suits the target's kind: ``linear`` for a real
            column, ``poisson`` for a count, ``logistic`` for yes or no and for two categories,
            ``softmax`` for more.
        priors: Of single coefficients, by name, on the encoded scale: an sd, or a
            ``numpyro.distributions.Normal``; of a group's sd, ``1|ward_sigma``, the scale.
    """
    encoder = FormulaEncoder(formula, schema)
    columns = [schema[name] for name in encoder.outcome if name in schema]
    model = with_priors(_family(family, columns[0]), *columns)
    given, names = _checked_priors(priors, encoder), encoder.names
    own = tuple(
        _own_prior(names.index(name), name, prior) for name, prior in given.items() if name in names
    )
    model = replace(model, constant=_short(encoder.constant), own=own)
    if encoder.groups:
        model = _grouped(model, encoder, given)
    return FormulaModel(model, bind_formula(model, encoder))


def _grouped(model: Glm, encoder: FormulaEncoder, given: Priors) -> GroupedGlm:
    if model.kind.joint and model.kind.predictors > 1:
        raise NoisewiseError(
            f"{model} has a predictor for each level, and group terms are for one predictor: write "
            "the groups as fixed effects"
        )
    groups = []
    for group in encoder.groups:
        found = GroupEffects(group.name, len(group.category.levels), model.prior_scale)
        if found.sd in given:
            sd = _own_prior(0, found.sd, given[found.sd])
            if sd.mean is not None:
                raise NoisewiseError(
                    f"the prior of '{found.sd}' is half-normal: give its scale, a number"
                )
            found = found._replace(scale=sd.sd)
        groups.append(found)
    plain = {field.name: getattr(model, field.name) for field in fields(model)}
    return GroupedGlm(**plain, groups=tuple(groups))


def _family(family: str | None, target: Column) -> Glm:
    if family is None:
        many = len(target.categories or ()) > 2
        family = "softmax" if many else _USUAL.get(target.kind, "logistic")
    found = family_from_text(family) if isinstance(family, str) else None
    if found is None:
        raise NoisewiseError(
            f"family must be one of {', '.join(FAMILIES)} for a formula, got {shown(family)}"
        )
    return found


def _short(constant: tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Without the zeros at the end: a formula with an intercept is a model like any other."""
    if constant is None:
        return None
    return constant[: int(np.flatnonzero(constant)[-1]) + 1]


def _checked_priors(priors: Priors | None, encoder: FormulaEncoder) -> Priors:
    """Priors that a user gave, of coefficients that there are."""
    if priors is None:
        return {}
    if not isinstance(priors, Mapping):
        raise NoisewiseError(
            f"priors must map coefficients' names to sds or normal distributions, got "
            f"{shown(priors)}"
        )
    sds = [f"{group.name}_sigma" for group in encoder.groups]
    names = [*encoder.names[: len(encoder.names) - encoder.grouped], *sds]
    for name in priors:
        if name not in names:
            raise NoisewiseError(
                f"priors names {shown(name)}, which is no coefficient of the formula: choose among "
                f"{listed(names)}"
            )
    return priors


def _own_prior(place: int, name: str, prior: Any) -> OwnPrior:
    normal = isinstance(prior, dist.Normal) and prior.batch_shape == ()
    mean, sd = (float(prior.loc), float(prior.scale)) if normal else (None, prior)
    number = isinstance(sd, int | float) and not isinstance(sd, bool)
    if number and 0 < sd < math.inf and (mean is None or math.isfinite(mean)):
        return OwnPrior(place, mean, float(sd))
    raise NoisewiseError(
        f"the prior of {shown(name)} must be an sd above 0 or a numpyro.distributions.Normal of "
        f"one number, got {shown(prior)}"
    )
