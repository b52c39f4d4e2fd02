"""What commands share: options, consoles, tables, progress, one-line errors."""

import os
import re
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from typer.models import OptionInfo

from noisewise._files import check_writable
from noisewise._interrupts import EXIT_CODE, asked_to_stop, say_next, say_stopped
from noisewise._validate import NoisewiseError, Progress, shown

out, err = Console(), Console(stderr=True)
_TRACEBACK = "NOISEWISE_TRACEBACK"
LINE_SECONDS = 10.0
"""Least time between two lines of progress where there is no terminal."""
_FLAGS: ContextVar[dict[str, str]] = ContextVar("flags", default={})  # noqa: B039 (never changed)
"""Flags of the command that is running, by the name of their Python argument."""

Epsilon = Annotated[float, typer.Option(help="Privacy budget epsilon: smaller is more private.")]
Delta = Annotated[float, typer.Option(help="Privacy budget delta: well below 1 / rows.")]
Model = Annotated[
    str | None,
    typer.Option(
        show_default="logistic",
        help="logistic, probit, poisson, negbin, linear, student, gamma, lognormal, softmax, "
        "ordinal, weibull, piecewise-exponential, mixed(FAMILY, SLOPE), network, mixture, or "
        "path/to/model.py:function.",
    ),
]
Formula = Annotated[
    str | None,
    typer.Option(
        help="In place of model, target and features: 'visits ~ age * sex + log(income)'."
    ),
]
Family = Annotated[
    str | None,
    typer.Option(help="Of a formula: one of the models' names (by the target's type)."),
]
Priors = Annotated[
    list[str] | None,
    typer.Option(
        "--prior",
        help="Of a formula's coefficient, as NAME=SD on the encoded scale; may be repeated.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="The column that the model explains; of a survival model TIME,EVENT."),
]
Features = Annotated[
    str | None, typer.Option(help="Columns of X, separated by commas (all but the target).")
]
PlanFile = Annotated[
    Path | None, typer.Option(help="A plan file of `noisewise plan`; else one is made first.")
]
Method = Annotated[str, typer.Option(help="dpvi, or dp-sep.")]
ResultFolder = Annotated[Path, typer.Argument(help="A folder that `noisewise fit` wrote.")]
Adjacency = Annotated[str, typer.Option(help="add-remove or replace-one.")]
SCHEMA_HELP = (
    "Declared columns, a TOML file: for each, type real or count (with bounds), binary (0 and 1) "
    "or category (with categories)."
)
PublicRows = Annotated[
    Path | None, typer.Option(help="PUBLIC rows with the schema's covariates: .csv or .parquet.")
]

NumberOfDevices = Annotated[
    str, typer.Option(help="How many of this host's devices share the rows, or all.")
]

CovariateShare = Annotated[
    float | None,
    typer.Option(
        help="Share of the budget that buys a description of the covariates (0.1; 0 buys none)."
    ),
]

MisfitShare = Annotated[
    float | None,
    typer.Option(
        help="Share of the budget that buys whether outcomes scatter more than the model says "
        "(0.02; 0 buys none)."
    ),
]


@contextmanager
def one_line_errors(kept: Path | None = None, *flags: str) -> Iterator[None]:
    """What went wrong in one line, and exit code 2; warnings in one line too.

    A fault of ours gets one line as well, without its message, which might quote somebody's cells.
    An interrupt's line names the command to give next: to go on with what is ``kept`` by then, with
    these flags added, or else to start again.
    """
    say_next(
        lambda: (
            f"; go on with: {this_command(*flags)}"
            if kept is not None and kept.exists()
            else f"; start again with: {this_command()}"
        )
    )

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        text = in_flags(str(message))
        err.print(f"warning: {text}", style="yellow", highlight=False, markup=False)

    original = warnings.showwarning
    warnings.showwarning = warn
    try:
        yield
    except NoisewiseError as error:
        _fail(in_flags(str(error)), 2)
    except KeyboardInterrupt:
        say_stopped()
        sys.exit(EXIT_CODE)
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except MemoryError:
        _fail("there is not memory enough: use fewer columns, draws or rows a table", 2)
    except Exception as error:
        if asked_to_stop():  # raised in compiled code, it may come back as something else
            say_stopped()
            sys.exit(EXIT_CODE)
        if os.environ.get(_TRACEBACK):
            raise
        _fail(_fault_of_ours(error), 3)
    finally:
        warnings.showwarning = original


def this_command(*flags: str) -> str:
    """The command that is running, as one would type it, with these flags."""
    given = sys.argv[1:]
    return shlex.join(["noisewise", *given, *(flag for flag in flags if flag not in given)])


def _fail(text: str, code: int) -> NoReturn:
    text = " ".join(text.split())
    err.print(f"error: {text}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)


def _fault_of_ours(error: Exception) -> str:
    if "RESOURCE_EXHAUSTED" in str(error):
        return "the device has not memory enough: use fewer columns, draws or rows a table"
    here = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in here if "noisewise" in Path(frame.filename).parts] or here
    place = f"{Path(ours[-1].filename).name}, line {ours[-1].lineno}"
    return (
        f"noisewise failed with {type(error).__name__} in {place}, which is a fault of its own: "
        f"please report it; {_TRACEBACK}=1 shows where it came from, and may quote cells"
    )


def speaking_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose messages name its flags where the library names Python arguments.

    Args:
        command: as Typer takes it, with annotated arguments.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        token = _FLAGS.set(_flags_of(command))
        try:
            command(*args, **options)
        finally:
            _FLAGS.reset(token)

    return run


def _flags_of(command: Callable[..., None]) -> dict[str, str]:
    flags = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for about in getattr(hint, "__metadata__", ()):
            if isinstance(about, OptionInfo):
                long = [flag for flag in about.param_decls or () if flag.startswith("--")]
                flags[name] = long[0] if long else "--" + name.replace("_", "-")
    return flags


def in_flags(message: str) -> str:
    """The message with Python's arguments as the command's flags: ``clamp=True`` as ``--clamp``.

    Messages are written for callers in Python. An argument is known by its equals sign, at the
    start by what must be, and anywhere if it is no English word, having an underscore.
    """
    for name, flag in _FLAGS.get().items():
        alone = rf"(?<![\w.-]){name}"
        message = re.sub(rf"{alone}=(?:True\b|(?![\w'\"./]))", flag, message)
        message = re.sub(rf"{alone}=", f"{flag} ", message)
        bare = rf"{alone}(?![\w=-])" if "_" in name else rf"^{name}(?= must )"
        message = re.sub(bare, flag, message)
    return message


@contextmanager
def progress_bar(title: str, *, visible: bool = True) -> Iterator[Progress]:
    """A progress bar on a terminal; elsewhere a line now and then, so that logs show life. Not
    ``visible`` on hosts that another one speaks for."""
    if not visible:
        yield lambda done, steps: None
        return
    if err.is_terminal:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, console=err, transient=True) as bar:
            task = bar.add_task("Planning on simulated data", total=None)

            def draw(done: int, steps: int) -> None:
                bar.update(task, description=title, completed=done, total=steps)

            yield draw
        return
    last = time.monotonic()

    def update(done: int, steps: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            err.print(f"{title}: {done} of {steps}", highlight=False, markup=False)

    yield update


def check_page(path: Path, suffix: str) -> None:
    """Refuse an output that could not be written, before hours of simulation."""
    check_writable(path)
    if path.suffix != suffix:
        raise NoisewiseError(f"the output {path} must end in {suffix}")
    if not path.parent.is_dir():
        raise NoisewiseError(f"the folder {path.parent} of the output does not exist")


def device_number(text: str) -> int | str:
    """How many devices, or all."""
    if text != "all" and not text.isdecimal():
        raise NoisewiseError(f"--devices is a whole number or all, got {shown(text)}")
    return text if text == "all" else int(text)


def listed(names: str | None) -> list[str] | None:
    return names.split(",") if names else None


def targets(text: str | None) -> str | list[str] | None:
    """One column, or the two of a survival model, separated by a comma."""
    return text.split(",") if text and "," in text else text


def chosen_model(model: str | None, formula: str | None) -> str:
    """The model or the formula: one of them, or the usual model."""
    if formula is None:
        return model or "logistic"
    if model is not None:
        raise NoisewiseError("--formula says the model: give --family in place of --model")
    if "~" not in formula:
        raise NoisewiseError(
            f"the formula {formula!r} has no ~ in it: write the column to explain, ~, and terms"
        )
    return formula


def priors(texts: list[str] | None) -> dict[str, float] | None:
    """Sds by name, from NAME=SD; names may have equals signs of their own."""
    found = {}
    for text in texts or ():
        name, _, number = text.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise NoisewiseError(f"--prior must be NAME=SD, such as age=0.5, got {text!r}")
    return found or None


def read_public_sample(path: Path | None, schema: Any) -> Any:
    from noisewise.data import PublicSample

    return None if path is None else PublicSample.read(path, schema)


def table_of(*headings: str) -> Grid:
    """An empty table in the one look that all commands have."""
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        grid.add_column(heading)
    return grid


def escaped(text: str) -> str:
    return text.replace("[", "\\[")
