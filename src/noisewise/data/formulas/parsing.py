"""The operators of a formula: text in, a response and terms of factors out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from noisewise._validate import listed, shown
from noisewise.data.errors import SchemaError
from noisewise.data.schema import Schema

_MODEL_FILE = re.compile(r".*\.py:\w+")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_GROUP = re.compile(r"\s*\((?:[^()|]|\([^()]*\))*\|(?:[^()|]|\([^()]*\))*\)\s*")
_QUOTED = re.compile(r"`([^`]*)`")


class GroupTerm(NamedTuple):
    """``(age | ward)``: effects of a group's levels, around those of everybody."""

    text: str
    slopes: tuple[tuple[str, ...], ...]
    """Factors of every term before the bar; the intercept has none."""
    group: str


class Parsed(NamedTuple):
    """A formula's two sides."""

    outcome: tuple[str, ...]
    """The column to explain; of a survival model a time and whether it is an event's."""
    terms: tuple[tuple[str, ...], ...]
    """Factors of every term, the intercept's none; main effects first, then their products."""
    groups: tuple[GroupTerm, ...] = ()


def is_formula(model: object) -> bool:
    """Whether a model is said by a formula, and not by a name or a file.

    Args:
        model: What a user gave.

    >>> is_formula("visits ~ age"), is_formula("~/model.py:model"), is_formula("logistic")
    (True, False, False)
    """
    return isinstance(model, str) and "~" in model and not _MODEL_FILE.fullmatch(model.strip())


def parse(formula: str, schema: Schema) -> Parsed:
    """The formula's response and terms, in R's sense of the operators.

    Args:
        formula: Such as ``visits ~ age * sex``.
        schema: Whose columns ``.`` stands for.
    """
    if not formula.partition("~")[2].strip():
        raise SchemaError(
            f"the formula {shown(formula)} has nothing on its right side: name terms, or write "
            "~ 1 for an intercept alone"
        )
    plain, bars = _without_groups(formula)
    found = _read(plain, formula, schema)
    sides = getattr(found, "lhs", None), getattr(found, "rhs", None)
    if sides[0] is None or sides[1] is None or isinstance(sides[1], tuple):
        raise SchemaError(
            f"the formula {shown(formula)} must have two sides: the column to explain, ~, and terms"
        )
    groups = []
    for inside in bars:
        left, _, group = (part.strip() for part in inside.partition("|"))
        terms = _terms(_read(f"_ ~ {left}", formula, schema).rhs)
        groups.append(GroupTerm(f"({left} | {group})", terms, group))
    return Parsed(_outcome(sides[0], schema), _terms(sides[1]), tuple(groups))


def _read(text: str, formula: str, schema: Schema) -> Any:
    """What formulaic makes of a formula without group terms, which it does not know."""
    from formulaic.errors import FormulaParsingError
    from formulaic.parser import DefaultFormulaParser

    try:
        # In R `b %in% a` is the product alone; formulaic adds a.
        return DefaultFormulaParser().get_terms(
            text.replace("%in%", ":"),
            context={"__formulaic_variables_available__": list(schema.names)},
        )
    except Exception as error:  # its own kinds, and whatever else odd text makes it raise
        if not isinstance(error, FormulaParsingError | SyntaxError):
            error = SyntaxError("it is no formula")
        reason = _ESCAPES.sub("", str(error)).strip().partition("\n")[0].rstrip(".")
        raise SchemaError(f"the formula {shown(formula)} cannot be read: {reason}") from None


def _without_groups(formula: str) -> tuple[str, list[str]]:
    """The formula without its group terms, and what is in their brackets."""
    left, tilde, right = formula.partition("~")
    parts, depth, quoted = [""], 0, ""
    for sign in right:
        if quoted or sign in "\"'`":
            quoted = "" if sign == quoted else quoted or sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
        if sign == "+" and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    groups = [part.strip()[1:-1] for part in parts if _GROUP.fullmatch(part)]
    rest = [part for part in parts if not _GROUP.fullmatch(part)]
    if any("|" in _QUOTED.sub("", part) for part in rest):
        raise SchemaError(
            f"the formula {shown(formula)} has a bar outside a group term: write group terms as "
            "(1 | ward), in brackets, and join them to the others by +"
        )
    return f"{left}{tilde}{'+'.join(rest) or ' 1'}", groups


def _terms(found: Iterable[Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted((_factors(term) for term in found), key=len))


def _factors(term: Any) -> tuple[str, ...]:
    """A term's factors as text; a 1 is none."""
    texts = [factor.expr for factor in term.factors]
    for factor, text in zip(term.factors, texts, strict=True):
        if factor.eval_method.value == "literal" and text != "1":
            raise SchemaError(
                f"term {shown(str(term))} has the number {text} in it: leave it out, or write "
                f"I({text} * ...)"
            )
    return tuple(text for text in texts if text != "1")


def _outcome(terms: Iterable[Any], schema: Schema) -> tuple[str, ...]:
    """The response's column or, of ``Surv(time, event)``, two."""
    texts = [factor.expr for term in terms for factor in term.factors]
    if len(texts) == 1 and texts[0] in schema:
        return (texts[0],)
    call = expression(texts[0]).tree if len(texts) == 1 else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "Surv" and len(call.args) == 2:
        names = expression(texts[0]).names
        return tuple(names.get(ast.unparse(part), ast.unparse(part)) for part in call.args)
    raise SchemaError(
        f"the left side of the formula is {shown(' + '.join(texts))}, but must be a column "
        f"({listed(schema.names)}) or, of a survival model, Surv(time, event)"
    )


class Quoted(NamedTuple):
    """A factor as a tree of Python, with names in backquotes replaced."""

    tree: ast.expr
    names: dict[str, str]
    """The columns behind the names that replace them."""


def expression(text: str) -> Quoted:
    """The tree of a factor's text.

    Args:
        text: Such as ``log(income)``.
    """
    names: dict[str, str] = {}

    def replaced(found: re.Match[str]) -> str:
        name = f"_quoted_{len(names)}"
        names[name] = found[1]
        return name

    try:
        return Quoted(ast.parse(_QUOTED.sub(replaced, text).strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise SchemaError(f"{shown(text)} in the formula is no expression") from None
