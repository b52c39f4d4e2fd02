"""The layout is the privacy boundary: a module imports only from earlier houses."""

import ast
from pathlib import Path

import pytest

import noisewise

ROOT = Path(noisewise.__file__).parent
STREET = [
    "_validate",
    "data",
    "models",
    "guides",
    "mechanism",
    "dpvi",
    "dpsep",
    "covariates",
    "posterior",
    "baselines",
    "result",
    "prediction",
    "storage",
    "evaluation",
    "trials",
    "planning",
    "validation",
    "account",
    "sep_fitting",
    "fitting",
    "synthetic",
    "studies",
    "report",
    "demo",
    "estimators",
    "cli",
]
# Behind the wall, what handles rows: only these may take a table's arrays apart.
ROW_HANDLERS = {
    "data",
    "models",
    "mechanism",
    "dpvi",
    "dpsep",
    "covariates",
    "baselines",
    "sep_fitting",
    "fitting",
    "demo",
    "estimators",
}


def house(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def top_level_imports(path: Path) -> set[str]:
    """Houses imported when the module is loaded; lazy imports inside functions do not count."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("noisewise."):
            found.add(node.module.split(".")[1])
    return found


MODULES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_up_the_street_only(path):
    here = house(path)
    assert here in STREET
    for imported in top_level_imports(path):
        assert STREET.index(imported) <= STREET.index(here), f"{here} imports {imported}"


@pytest.mark.parametrize("path", sorted((ROOT / "studies").rglob("*.py")), ids=lambda p: p.stem)
def test_studies_know_their_paper_and_the_core_only(path):
    """From the core to the papers to the catalogue, imports inside functions included."""
    paper = path.relative_to(ROOT / "studies").parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        module = (getattr(node, "module", None) or "").split(".")
        if module[:2] == ["noisewise", "studies"] and paper != "__init__.py":
            assert module[2] in ("core", paper), f"{paper} imports {module[2]}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_row_handlers_read_rows(path):
    if house(path) not in ROW_HANDLERS:
        reads = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and node.attr == "arrays"
        ]
        assert reads == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_command_line_prints(path):
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "breakpoint")
    ]
    assert calls == [] or house(path) == "cli"


def test_every_public_name_loads():
    for name in noisewise.__all__:
        assert getattr(noisewise, name).__name__ == name
    assert set(noisewise.__all__) <= set(dir(noisewise))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = noisewise.nothing
