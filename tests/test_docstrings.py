"""Public functions say what their arguments are: all that a house offers, and methods of classes
that `noisewise` itself offers."""

import importlib
import inspect
import pkgutil
import re

import pytest

import noisewise

# Commands are not here: the help pages are their parameter sections (`test_cli_words`).
HOUSES = sorted(m.name for m in pkgutil.iter_modules(noisewise.__path__) if m.ispkg)
HOUSES.remove("cli")


def undocumented(function) -> list[str]:
    """Parameters that the docstring's `Args:` does not name, and names there that are no
    parameters."""
    wanted = [
        name for name in inspect.signature(function).parameters if name not in ("self", "cls")
    ]
    doc = inspect.getdoc(function) or ""
    _, _, section = doc.partition("Args:\n")
    section = re.split(r"\n(?=\S)", section)[0]
    named = re.findall(r"^    \*{0,2}(\w+): \S", section, re.MULTILINE)
    return sorted(set(wanted) ^ set(named))


def offered(house: str):
    package = importlib.import_module(f"noisewise.{house}")
    for name, value in vars(package).items():
        ours = getattr(value, "__module__", "").startswith(f"noisewise.{house}")
        if ours and not name.startswith("_") and callable(value) and not inspect.isclass(value):
            yield f"{house}.{name}", value


def methods_of_the_front_door():
    for name in noisewise.__all__:
        value = getattr(noisewise, name)
        for method, function in (
            inspect.getmembers(value, callable) if inspect.isclass(value) else ()
        ):
            ours = (getattr(function, "__module__", None) or "").startswith("noisewise")
            if ours and not method.startswith("_") and not inspect.isclass(function):
                yield f"{name}.{method}", function


@pytest.mark.parametrize("house", HOUSES)
def test_functions_that_a_house_offers(house):
    missing = {name: undocumented(function) for name, function in offered(house)}
    assert {name: params for name, params in missing.items() if params} == {}


def test_methods_of_what_noisewise_itself_offers():
    missing = {name: undocumented(function) for name, function in methods_of_the_front_door()}
    assert len(missing) > 50
    assert {name: params for name, params in missing.items() if params} == {}


def test_a_missing_parameter_would_be_seen():
    def silent(one, two):
        """Nothing is said."""

    def half(one, two):
        """Something is said.

        Args:
            one: Said.
            three: Not there.
        """

    assert undocumented(silent) == ["one", "two"]
    assert undocumented(half) == ["three", "two"]
