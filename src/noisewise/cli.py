"""The command line: parse, call, print; no maths."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid

from noisewise._validate import NoisewiseError

__all__ = ["app", "main"]

_HELP = """
Differentially private Bayesian inference that knows its own noise.

A schema declares what is publicly known about a table: types, bounds,
categories; never anything read from it. A fit spends an (epsilon, delta)
budget on the table once and returns a posterior whose error bars include the
privacy noise, with a certificate of what was spent.

[bold]Start here[/bold]

  noisewise demo            real health data, two minutes, one HTML report
  noisewise plan people.toml --rows 20000 --target visited --epsilon 1
  noisewise fit people.csv --schema people.toml --model logistic \\
            --target visited --epsilon 1 --delta 1e-6 -o out
  noisewise verify out      recompute the certificate's epsilon
  noisewise report out      write the report again
  noisewise coverage people.toml --rows 20000 --target visited --epsilon 1

[bold]A schema[/bold] (people.toml)

  \\[columns.age]               \\[columns.sex]
  type = "real"               type = "category"
  bounds = \\[0, 100]           categories = \\["f", "m"]
  mean = 45  # public guess
  sd = 15                     \\[columns.visited]
                              type = "binary"
"""

app = typer.Typer(
    help=_HELP, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False
)
_out, _err = Console(), Console(stderr=True)

Epsilon = Annotated[float, typer.Option(help="Privacy budget epsilon: smaller is more private.")]
Delta = Annotated[float, typer.Option(help="Privacy budget delta: well below 1 / rows.")]
Model = Annotated[
    str, typer.Option(help="logistic, poisson, linear, or path/to/model.py:function.")
]
Target = Annotated[str | None, typer.Option(help="The column that the model explains.")]
Features = Annotated[
    str | None, typer.Option(help="Columns of X, separated by commas (all but the target).")
]
Adjacency = Annotated[str, typer.Option(help="add-remove or replace-one.")]
PublicRows = Annotated[
    Path | None, typer.Option(help="PUBLIC rows with the schema's covariates: .csv or .parquet.")
]


@app.command()
def fit(
    data: Annotated[Path, typer.Argument(help="The table: .csv, .csv.gz or .parquet.")],
    schema: Annotated[Path, typer.Option(help="Declared columns: a TOML file.")],
    epsilon: Epsilon,
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the result.")],
    model: Model = "logistic",
    target: Target = None,
    delta: Delta = 1e-6,
    features: Features = None,
    adjacency: Adjacency = "add-remove",
    plan: Annotated[
        Path | None, typer.Option(help="A plan file of `noisewise plan`; else a quick one is made.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps (4000).")] = None,
    public_sample: PublicRows = None,
    clamp: Annotated[
        bool, typer.Option(help="Clamp values outside their bounds instead of refusing them.")
    ] = False,
    insecure_seed: Annotated[
        int | None, typer.Option(help="Repeatable and therefore NOT PRIVATE: for tests only.")
    ] = None,
) -> None:
    """Fit a model to a table under differential privacy; save posterior, certificate and report."""
    with _one_line_errors():
        from noisewise.data import Schema, Table
        from noisewise.fitting import fit as run_fit
        from noisewise.mechanism import Budget
        from noisewise.planning import Plan
        from noisewise.storage import check_free

        check_free(output)
        if public_sample is not None and public_sample.resolve() == data.resolve():
            raise NoisewiseError(
                f"the public sample {public_sample} is the table itself: its rows are not public"
            )
        budget = Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)
        planned = None if plan is None else Plan.load(plan)
        declared = Schema.from_toml(schema)
        table = Table.read(data, declared, clamp=clamp)
        with _progress("Private fit") as progress:
            result = run_fit(
                model,
                table,
                budget=budget,
                target=target,
                features=_listed(features),
                plan=planned,
                steps=steps,
                public_sample=_sample(public_sample, declared),
                insecure_seed=insecure_seed,
                progress=progress,
            )
        result.save(output)
        result.report(output / "report.html")
        _show_summary(result)
        _out.print(f"\nSaved to {output}; open {output / 'report.html'}")


@app.command()
def plan(
    schema: Annotated[Path, typer.Argument(help="Declared columns: a TOML file.")],
    rows: Annotated[int, typer.Option(help="Rows to plan for, from public knowledge.")],
    epsilon: Epsilon,
    model: Model = "logistic",
    target: Target = None,
    delta: Delta = 1e-6,
    features: Features = None,
    adjacency: Adjacency = "add-remove",
    fits: Annotated[
        int, typer.Option(help="Simulated fits for each design; 0 is a quick guess.")
    ] = 24,
    recalibrate: Annotated[
        int, typer.Option(help="Fresh simulated fits of the best design, to recalibrate by.")
    ] = 128,
    steps: Annotated[int, typer.Option(help="Number of steps of the fit.")] = 4000,
    public_sample: PublicRows = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The plan file.")] = Path(
        "plan.toml"
    ),
) -> None:
    """Choose every setting on simulated data and forecast the error bars; touches no row."""
    with _one_line_errors():
        from noisewise.data import Schema
        from noisewise.mechanism import Budget
        from noisewise.planning import plan as make_plan

        _check_page(output, ".toml")
        declared = Schema.from_toml(schema)
        with _progress("Simulated fits") as progress:
            made = make_plan(
                model,
                like=declared,
                n=rows,
                budget=Budget(epsilon=epsilon, delta=delta, adjacency=adjacency),
                target=target,
                features=_listed(features),
                public_sample=_sample(public_sample, declared),
                steps=steps,
                fits=fits,
                recalibrate=recalibrate,
                progress=progress,
            )
        page = made.report(made.save(output).with_suffix(".html"))
        sample = "" if public_sample is None else f" --public-sample {public_sample}"
        _show_forecast(made.forecast)
        _out.print(
            f"\nSaved to {output}; open {page}\n"
            f"Next: noisewise fit DATA --plan {output}{sample} ..."
        )


@app.command()
def coverage(
    schema: Annotated[Path, typer.Argument(help="Declared columns: a TOML file.")],
    rows: Annotated[int, typer.Option(help="Rows of each simulated table.")],
    epsilon: Epsilon,
    model: Model = "logistic",
    target: Target = None,
    delta: Delta = 1e-6,
    features: Features = None,
    adjacency: Adjacency = "add-remove",
    plan: Annotated[
        Path | None, typer.Option(help="A plan file of `noisewise plan`; else one is made first.")
    ] = None,
    simulations: Annotated[int, typer.Option(help="Simulated tables, each fitted.")] = 500,
    test_rows: Annotated[
        int, typer.Option(help="New records a table to check predictions with (yes or no).")
    ] = 0,
    public_sample: PublicRows = None,
    seed: Annotated[int, typer.Option(help="Of the simulation; no data are involved.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is one a core.")] = 1,
    backend: Annotated[str, typer.Option(help="joblib's: loky, dask or ray.")] = "loky",
    folder: Annotated[
        Path | None, typer.Option(help="Keep finished groups here; a killed run goes on.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path(
        "coverage.html"
    ),
) -> None:
    """Are the error bars right? Private fits of simulated tables against the truth; no row read."""
    with _one_line_errors():
        from noisewise.data import Schema
        from noisewise.mechanism import Budget
        from noisewise.planning import Plan
        from noisewise.validation import coverage as run_coverage

        _check_page(output, ".html")
        declared = Schema.from_toml(schema)
        with _progress("Simulated fits") as progress:
            found = run_coverage(
                model,
                like=declared,
                n=rows,
                budget=Budget(epsilon=epsilon, delta=delta, adjacency=adjacency),
                target=target,
                features=_listed(features),
                plan=None if plan is None else Plan.load(plan),
                simulations=simulations,
                public_sample=_sample(public_sample, declared),
                test_rows=test_rows,
                seed=seed,
                jobs=jobs,
                backend=backend,
                folder=folder,
                progress=progress,
            )
        page = found.report(output)
        _show_coverage(found)
        _out.print(f"\nPage: {page}")


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="table1, table2, table3 or figure1.")],
    fits: Annotated[
        int | None, typer.Option(help="Simulated data sets (repeats) a column; else the paper's.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Budgets instead of the paper's; may be repeated.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, by commas; nuts and plain-gibbs only when named.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Posterior draws a fit.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the simulation and its noise.")] = 1,
    data: Annotated[
        Path | None, typer.Option(help="Folder of UCI's Adult files, for table3.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; else as many as cores.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or gpu; else what JAX finds.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for JSON, Markdown and figure.")
    ] = Path("studies"),
) -> None:
    """Re-run a table or figure of the NA-DPVI paper, its rivals and noisewise's own row with it."""
    with _one_line_errors():
        from noisewise.studies import run_study

        _use_device(device)
        with _progress("Columns and methods") as progress:
            found = run_study(
                name,
                fits=fits,
                epsilons=epsilon or (),
                methods=_listed(methods) or (),
                draws=draws,
                seed=seed,
                data=data,
                jobs=jobs,
                progress=progress,
            )
        _out.print(found.to_markdown(), highlight=False, markup=False, soft_wrap=True)
        saved = " ".join(str(path) for path in found.save(output))
        _out.print(f"\nSaved: {saved}")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder that `noisewise fit` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page (FOLDER/report.html).")
    ] = None,
) -> None:
    """Write the HTML report of a saved result."""
    with _one_line_errors():
        from noisewise.result import Result

        path = Result.load(folder).report(output or folder / "report.html")
        _out.print(f"Wrote {path}")


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="A folder that `noisewise fit` wrote.")],
) -> None:
    """Recompute a saved result's epsilon from its ledger; exits with 1 if the claim fails."""
    with _one_line_errors():
        from noisewise.result import Result

        certificate = Result.load(folder).privacy
        check = certificate.verify()
        _out.print(str(certificate), highlight=False, markup=False)
        _out.print(str(check), highlight=False, markup=False)
        if not (check.holds and certificate.private):
            raise typer.Exit(1)


@app.command()
def demo(
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    output: Annotated[Path, typer.Option("--output", "-o", help="The report.")] = Path(
        "demo-report.html"
    ),
) -> None:
    """A private logistic regression on real health data that ship with statsmodels."""
    with _one_line_errors():
        from noisewise import demo as example
        from noisewise.mechanism import Budget

        _out.print(
            "RAND Health Insurance Experiment: who visited a doctor in a year?\n"
            f"Private logistic regression, epsilon {epsilon:g}, delta {delta:g}."
        )
        with _progress("Private fit") as progress:
            budget = Budget(epsilon=epsilon, delta=delta)
            result, rows = example.run(budget, progress)
        path = result.report(output)
        _show_comparison(rows)
        _out.print()
        _out.print(str(result.privacy), highlight=False, markup=False)
        _out.print(f"\nStatus: {result.status.words}.\nReport: {path}")


def _use_device(device: str | None) -> None:
    """Ask JAX for a kind of device, before it has chosen one itself."""
    import jax

    from noisewise._validate import NoisewiseError, one_of

    if device is None:
        return
    if one_of("device", device, ("cpu", "gpu")) == "cpu":
        jax.config.update("jax_platforms", "cpu")
        os.environ["JAX_PLATFORMS"] = "cpu"  # for processes that are started from here
        return
    # Looking for a GPU must not take all its memory from the processes that will work on it.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if jax.default_backend() != "gpu":
        raise NoisewiseError(f"JAX found no GPU here, only {jax.default_backend()}: drop --device")


def main() -> None:
    """Entry point."""
    app()


# -- printing ----------------------------------------------------------------------------------


def _interval(values: tuple[float, float, float]) -> str:
    low, middle, high = values
    return f"{middle:5.2f} [{low:5.2f},{high:5.2f}]"


def _show_comparison(rows: list[Any]) -> None:
    _out.print("\nCoefficients: mean and 95% interval")
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("", no_wrap=True)
    grid.add_column("private,\nnoise-aware", style="bold", no_wrap=True)
    grid.add_column("plain DPVI\nNOT FOR RELEASE", style="dim", no_wrap=True)
    grid.add_column("non-private\nNOT FOR RELEASE", style="dim", no_wrap=True)
    for row in rows:
        cells = (row.noise_aware, row.plain, row.unsafe_non_private)
        grid.add_row(row.name, *(_escaped(_interval(cell)) for cell in cells))
    _out.print(grid)
    _out.print("Plain DPVI ignores the noise; non-private comes from the raw rows.\n")
    for label, field in (("noise-aware", "noise_aware"), ("plain DPVI", "plain")):
        intervals = [(getattr(row, field), row.unsafe_non_private[1]) for row in rows]
        held = sum(low <= estimate <= high for (low, _, high), estimate in intervals)
        _out.print(f"{label} intervals that hold the non-private estimate: {held} of {len(rows)}")


def _show_summary(result: Any) -> None:
    _out.print("\nNoise-aware posterior")
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("parameter", "mean", "sd", "95% interval"):
        grid.add_column(heading)
    for name, row in result.summary().iterrows():
        interval = f"[{row['lower']:.4g}, {row['upper']:.4g}]"
        cells = (f"{row['mean']:.4g}", f"{row['sd']:.2g}", interval)
        grid.add_row(*(_escaped(cell) for cell in (str(name), *cells)))
    _out.print(grid)
    _out.print(str(result.privacy), highlight=False, markup=False)
    _out.print(f"\nStatus: {result.status.words}.")


def _check_page(path: Path, suffix: str) -> None:
    """Refuse an output that could not be written, before hours of simulation."""
    if path.suffix != suffix:
        raise NoisewiseError(f"the output {path} must end in {suffix}")
    if not path.parent.is_dir():
        raise NoisewiseError(f"the folder {path.parent} of the output does not exist")


def _listed(names: str | None) -> list[str] | None:
    return names.split(",") if names else None


def _sample(path: Path | None, schema: Any) -> Any:
    from noisewise.data import PublicSample

    return None if path is None else PublicSample.read(path, schema)


def _show_forecast(forecast: Any) -> None:
    source = f"{forecast.fits} simulated fits" if forecast.fits else "an analytic guess"
    _out.print(f"\nForecast, on the unconstrained scale, from {source}")
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("parameter", "sd before", "expected sd", "one release's"):
        grid.add_column(heading)
    columns = (forecast.prior_sd, forecast.sd, forecast.single_release_sd)
    for name, *sds in zip(forecast.labels, *columns, strict=True):
        grid.add_row(_escaped(name), *(f"{sd:.3g}" for sd in sds))
    _out.print(grid)


def _show_coverage(found: Any) -> None:
    scores = found.scores
    _out.print(f"\n{found.verdict.words}", style="bold", highlight=False, markup=False)
    for line in found.verdict.lines:
        _out.print(f"- {line}", highlight=False, markup=False)
    _out.print(
        f"joint coverage RMSE {found.rmse:.3f} (a perfect posterior: {found.floor:.3f}); floors of "
        f"z mean {scores.z_mean_floor:.2f} and z sd {scores.z_sd_floor:.2f}; "
        f"{scores.failed} of {scores.fits} fits failed",
        highlight=False,
    )
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("parameter", "z mean", "z sd", "error", "reported sd", "bound", "plain z sd")
    for heading in headings:
        grid.add_column(heading)
    for row in found.table():
        grid.add_row(
            _escaped(row["parameter"]),
            f"{row['z_mean']:.2f}",
            f"{row['z_sd']:.2f}",
            *(f"{row[name]:.3g}" for name in ("error", "reported_sd", "single_release_sd")),
            f"{row['plain_z_sd']:.2f}",
        )
    _out.print(grid)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; silence elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as bar:
        task = bar.add_task("Planning on simulated data", total=None)

        def update(done: int, steps: int) -> None:
            bar.update(task, description=title, completed=done, total=steps)

        yield update


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What went wrong in one line, and exit code 2; warnings in one line too."""

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        _err.print(f"warning: {message}", style="yellow", highlight=False, markup=False)

    original = warnings.showwarning
    warnings.showwarning = warn
    try:
        yield
    except NoisewiseError as error:
        _err.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2)
    finally:
        warnings.showwarning = original
