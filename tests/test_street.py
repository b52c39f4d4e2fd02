"""The layout is the privacy boundary: a module imports only from earlier houses."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import noisewise

ROOT = Path(noisewise.__file__).parent
STREET = [
    "_shapes",
    "_validate",
    "_interrupts",
    "_files",
    "_hosts",
    "_programs",
    "_pages",
    "data",
    "models",
    "guides",
    "mechanism",
    "engine",
    "dpvi",
    "dpsep",
    "covariates",
    "posterior",
    "baselines",
    "evaluation",
    "result",
    "checks",
    "trials",
    "planning",
    "fitting",
    "coverage",
    "audit",
    "synthetic",
    "studies",
    "report",
    "demo",
    "estimators",
    "cli",
    "__main__",
]
# Who may open rows about people: behind the wall they are noised and accounted for.
WALL = {"data", "mechanism", "engine"}
OPENERS = {"unsafe_columns", "unsafe_passes", "unsafe_prepared", "unsafe_taken"}
UNSAFE = {"baselines/non_private.py", "synthetic/marginals.py"}
# Switches on what a model or a site is, each behind a capability that was asked for. Fewer is
# better: a number here only falls.
SWITCHES = {
    "dpsep/models.py": 1,
    "fitting/network.py": 1,
    "planning/mixture_clipping.py": 2,
    "planning/mixture_guess.py": 1,
    "studies/dpvim/sharing_tables.py": 1,
}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))


def house(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    return ".".join(("noisewise", *path.relative_to(ROOT).with_suffix("").parts))


def imports(tree: ast.AST, package: str = "noisewise") -> list[str]:
    """Modules of ours that are imported anywhere: in functions and for the type checker alone as
    well, absolutely or relative to the package."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from noisewise import data` imports the house, not the street.
            deeper = [f"{module}.{alias.name}" for alias in node.names]
            found += deeper if module == "noisewise" else [module]
    return [name for name in found if name.split(".")[0] == "noisewise"]


def houses_imported(path: Path) -> set[str]:
    package = module_of(path).rpartition(".")[0]
    return {f"{name}.(all of it)".split(".")[1] for name in imports(_tree(path), package)}


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def nodes_with_functions(path: Path) -> list[tuple[ast.AST, str]]:
    """Every node, and the name of the innermost function around it."""
    found: list[tuple[ast.AST, str]] = []

    def walk(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            here = node.name if inside else name
            found.append((child, here))
            walk(child, here)

    walk(_tree(path), "")
    return found


@every_module
def test_imports_go_up_the_street_only(path):
    here = house(path)
    assert here in STREET
    for imported in houses_imported(path):
        assert imported in STREET, f"{here} imports {imported}, which is not on the street"
        assert STREET.index(imported) <= STREET.index(here), f"{here} imports {imported}"


def test_no_import_escapes_the_count():
    """Each way to import a later house is seen."""
    ways = (
        "import noisewise.report",
        "from noisewise.report.page import render",
        "from noisewise import report",
        "def f():\n    from noisewise.report import write_page",
        "if TYPE_CHECKING:\n    from noisewise.report import write_page",
        "from ..report import write_page",
        "from .. import report",
        "class A:\n    def f(self):\n        import noisewise.report.page as page",
    )
    for way in ways:
        (found,) = imports(ast.parse(way), "noisewise.data")
        assert found.split(".")[1] == "report", way


@every_module
def test_only_the_command_line_loads_houses_late(path):
    """A late import of another house is for a quick start, never to get round the order."""
    late = [
        name
        for node, function in nodes_with_functions(path)
        if function and isinstance(node, ast.Import | ast.ImportFrom)
        for name in imports(ast.Module([node], []), module_of(path).rpartition(".")[0])
        if name.split(".")[1:2] != [house(path)]
    ]
    assert late == [] or house(path) in ("cli", "__main__")


@every_module
def test_modules_are_loaded_by_name_by_the_front_door_alone(path):
    """An import by a string would not be counted; `models` loads users' own files so."""
    strings = [
        node.lineno
        for node, _ in nodes_with_functions(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("noisewise.")
        and " " not in node.value
    ]
    loads = {"import_module", "__import__"} & {
        getattr(node, "attr", getattr(node, "id", None)) for node, _ in nodes_with_functions(path)
    }
    assert not (strings and loads)


@pytest.mark.parametrize("path", sorted((ROOT / "studies").rglob("*.py")), ids=lambda p: p.stem)
def test_studies_know_their_paper_and_the_core_only(path):
    """From the core to the papers to the catalogue, imports inside functions included."""
    paper = path.relative_to(ROOT / "studies").parts[0]
    for name in imports(_tree(path), module_of(path).rpartition(".")[0]):
        module = name.split(".")
        if module[1:2] == ["studies"] and paper != "__init__.py":
            assert module[2] in ("core", paper), f"{paper} imports {module[2]}"


@every_module
def test_only_the_wall_opens_rows(path):
    opened = [
        (function, node.lineno) for node, function in nodes_with_functions(path) if _opens(node)
    ]
    here = path.relative_to(ROOT).as_posix()
    if house(path) not in WALL and here not in UNSAFE:
        assert [line for function, line in opened if not function.startswith("unsafe_")] == []


def _opens(node: ast.AST) -> bool:
    """By name, by a string of that name, or by the hidden field of another object."""
    if isinstance(node, ast.Attribute) and node.attr in ("_columns", "_files"):
        return not (isinstance(node.value, ast.Name) and node.value.id == "self")
    return not OPENERS.isdisjoint({getattr(node, "attr", None), _text(node)})


def _text(node: ast.AST) -> str | None:
    value = getattr(node, "value", None)
    return value if isinstance(value, str) else None


def test_switches_on_model_classes_only_get_fewer():
    found: Counter[str] = Counter()
    for path in MODULES:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                names = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
                if any(_is_model_class(name) for name in names) and house(path) != "models":
                    found[path.relative_to(ROOT).as_posix()] += 1
    assert found == SWITCHES


def _is_model_class(name: str) -> bool:
    return name in ("Glm", "Mixture", "Network", "ReadyMade") or name.endswith(("Site", "Target"))


@every_module
def test_only_the_command_line_prints(path):
    calls = [
        node.lineno
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "breakpoint")
    ]
    assert calls == [] or house(path) == "cli"


def test_every_public_name_loads():
    for name in noisewise.__all__:
        assert getattr(noisewise, name).__name__ == name
    assert {*noisewise.__all__, "__doc__", "__version__"} == set(dir(noisewise))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = noisewise.nothing
