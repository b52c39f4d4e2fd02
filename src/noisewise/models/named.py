"""Models by name or by file, for the command line and for people in a hurry."""

import difflib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.models.families import FAMILIES, OTHER_NAMES, Family, PiecewiseExponential, Student
from noisewise.models.glm import Glm
from noisewise.models.mixed import mixed, mixed_from_text
from noisewise.models.mixture import mixture_from_text
from noisewise.models.network import network_from_text
from noisewise.models.ready_made import ReadyMade, TargetNames, listed_targets

_NUMBER = r" *\d+(?:\.\d*)?(?:e[+-]?\d+)? *"
_WITH_NUMBERS = re.compile(rf"([a-z-]+)\((?:([a-z]+)=)?({_NUMBER}(?:,{_NUMBER})*)\)")
_NUMBERED: dict[str, tuple[str, Callable[[tuple[float, ...]], Family | None]]] = {
    "piecewise-exponential": ("cuts", lambda cuts: PiecewiseExponential(cuts=cuts)),
    "student": ("degrees", lambda n: Student(degrees=n[0]) if len(n) == 1 else None),
}
"""Families whose name may say numbers besides, and what these are called."""
_TAKES = {
    "piecewise-exponential": "rising times above 0, as in piecewise-exponential(cuts=6, 12)",
    "student": "a number above 0, as in student(degrees=7)",
}
_ELSEWHERE = {
    "logit": "logistic",
    "binomial": "logistic",
    "bernoulli": "logistic",
    "gaussian": "linear",
    "normal": "linear",
    "ols": "linear",
    "cox": "piecewise-exponential",
    "ordinal-logistic": "ordinal",
    "polr": "ordinal",
    "nb": "negative-binomial",
}
"""What other tools call families."""


def named_model(
    model: Callable[..., Any] | str,
    schema: Schema | None = None,
    target: TargetNames = None,
    features: list[str] | None = None,
) -> Callable[..., Any]:
    """A model from its name (`FAMILIES` or their `OTHER_NAMES`, ``network``, ``mixture``), from
    ``file.py:function``, or itself when it is a function already.

    A mixture gets its columns from the schema here: all of them, or the ``features`` and the
    target. Its name may say more, as in ``mixture(components=8, response=poisson)``, and so may
    those of two families: ``piecewise-exponential(cuts=6, 12, 24)``, ``student(degrees=7)``. A
    regression with an intercept, or slopes, of each unit's own is ``mixed(logistic, age)``.

    By name, priors follow the target's declaration, as each family's docstring says: for
    ``linear``, coefficients and residual sd are on the scale of its ``sd`` (or a quarter of its
    range) and the intercept around its ``mean``; for ``poisson``, coefficients are Normal(0, 0.5),
    the intercept around log ``mean``.

    Args:
        model: A name, or the model itself.
        schema: What is publicly known of the table.
        target: The column that is ``y``; of a survival model a time and an event.
        features: The columns that make up ``X``; None is all others.

    >>> str(named_model("negbin"))
    'negative-binomial'
    """
    columns = [schema[n] for n in listed_targets(target) if schema is not None and n in schema]
    if isinstance(model, str):
        model = (
            _mixed_model(model, columns)
            or mixture_from_text(model)
            or network_from_text(model)
            or model
        )
    if isinstance(model, ReadyMade):
        return model if schema is None else model.of(schema, target, features)
    if callable(model):
        return model
    if not isinstance(model, str):
        raise NoisewiseError(f"model must be a NumPyro model or a name, got {model!r}")
    found = family_from_text(model)
    if found is not None:
        return with_priors(found, *columns[:2]) if columns else found
    _refuse_brackets(model)
    path, _, name = model.rpartition(":")
    if not path or not path.endswith(".py"):
        raise NoisewiseError(
            f"model {model!r} is neither {', '.join(FAMILIES)}, network, mixture nor "
            f"path/to/model.py:function, and no formula, which has a ~ in it{_meant(model)}"
        )
    return _from_file(Path(path), name)


def _meant(text: str) -> str:
    """The family that people may mean, by another tool's name for it or by a slip."""
    name = text.strip().casefold().partition("(")[0].replace("_", "-")
    known = [*FAMILIES, *OTHER_NAMES]
    near = difflib.get_close_matches(name, known, 1, 0.75)
    found = _ELSEWHERE.get(name) or (near[0] if near else None)
    return f": do you mean {found!r}?" if found else ""


def _mixed_model(text: str, columns: list[Column]) -> ReadyMade | None:
    """The mixed model that a text names, its priors as the target's declaration has them."""
    named = mixed_from_text(text)
    if named is None:
        return None
    glm = family_from_text(named[0])
    if glm is None:
        raise NoisewiseError(f"model {text!r} names no family: choose among {', '.join(FAMILIES)}")
    return mixed(with_priors(glm, *columns[:2]) if columns else glm, named[1])


def family_from_text(text: str) -> Glm | None:
    """The regression that a text names, with plain priors; None if it names none.

    Args:
        text: As people write it.

    >>> family_from_text("piecewise-exponential(cuts=6, 12)").kind.cuts
    (6.0, 12.0)
    """
    name = OTHER_NAMES.get(text, text)
    if name in FAMILIES:
        return Glm(name)
    found = _WITH_NUMBERS.fullmatch(text)
    if found is None or found[1] not in _NUMBERED:
        return None
    called, make = _NUMBERED[found[1]]
    form = make(tuple(map(float, found[3].split(",")))) if found[2] in (None, called) else None
    return None if form is None else Glm(found[1], form=form)


def _refuse_brackets(text: str) -> None:
    """Refuse a known family with something behind its name that it does not take."""
    name, bracket, _ = text.partition("(")
    name = OTHER_NAMES.get(name, name)
    if bracket and name in FAMILIES:
        takes = _TAKES.get(name)
        usage = f"it takes {takes}" if takes else "it takes nothing in brackets"
        raise NoisewiseError(f"model {text!r} is not how {name} is written: {usage}")


def glm_for(
    family: str, column: Column, prior_scale: float | None = None, event: Column | None = None
) -> Glm:
    """A regression whose priors fit its target's declaration, or with a ``prior_scale`` as given.

    A target of the wrong kind gets plain priors here and is refused when it is bound.

    Args:
        family: One of `FAMILIES`.
        column: The target, as it is declared.
        prior_scale: In place of the declaration's.
        event: Of a survival model, the column that says whether the target is an event's time.
    """
    found = with_priors(Glm(family), column, event)
    return found if prior_scale is None else replace(found, prior_scale=prior_scale)


def with_priors(model: Glm, column: Column, event: Column | None = None) -> Glm:
    """A regression for a target, with priors that fit its declaration; as it is for a target that
    it cannot explain.

    Args:
        model: The regression.
        column: The target, as it is declared.
        event: Of a survival model, the column that says whether the target is an event's time.
    """
    if column.kind not in model.kind.kinds:
        return model
    form = model.kind.of(column, event)
    return replace(model, form=form, **form.priors(column, event)._asdict())


def _from_file(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise NoisewiseError(f"model file {path} does not exist")
    spec = importlib.util.spec_from_file_location(f"noisewise_model_{path.stem}", path)
    assert spec is not None  # a .py path always has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        text = " ".join(str(error).split())[:300]
        raise NoisewiseError(
            f"model file {path} failed with {type(error).__name__}: {text}"
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise NoisewiseError(f"model file {path} has no function '{name}'")
    return found
