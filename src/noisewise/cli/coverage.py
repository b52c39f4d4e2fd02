"""`coverage`: are the error bars right?"""

from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise._files import write_or_rescue
from noisewise.cli import common

_PAGE = Path("coverage.html")


def coverage(
    schema: Annotated[Path, typer.Argument(help=common.SCHEMA_HELP)],
    rows: Annotated[int, typer.Option(help="Rows of each simulated table.")],
    epsilon: common.Epsilon,
    model: common.Model = None,
    formula: common.Formula = None,
    family: common.Family = None,
    prior: common.Priors = None,
    target: common.Target = None,
    delta: common.Delta = 1e-6,
    features: common.Features = None,
    adjacency: common.Adjacency = "add-remove",
    plan: common.PlanFile = None,
    method: common.Method = "dpvi",
    stress: Annotated[
        bool, typer.Option(help="Also try tables that are unlike what the schema suggests.")
    ] = False,
    simulations: Annotated[int, typer.Option(help="Simulated tables, each fitted.")] = 500,
    test_rows: Annotated[
        int, typer.Option(help="New records a table to check predictions with (yes or no).")
    ] = 0,
    public_sample: common.PublicRows = None,
    covariate_share: common.CovariateShare = None,
    seed: Annotated[int, typer.Option(help="Of the simulation; no data are involved.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is one a core.")] = 1,
    backend: Annotated[str, typer.Option(help="joblib's: loky, dask or ray.")] = "loky",
    folder: Annotated[
        Path | None, typer.Option(help="Keep finished groups here; a killed run goes on.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = _PAGE,
) -> None:
    """Are the error bars right? Private fits of simulated tables against the truth; no row read."""
    with common.one_line_errors(folder):
        from noisewise.coverage import coverage as run_coverage
        from noisewise.data import Schema
        from noisewise.mechanism import Budget
        from noisewise.planning import Plan

        common.check_page(output, ".html")
        declared = Schema.from_toml(schema)
        with common.progress_bar("Simulated fits") as progress:
            found = run_coverage(
                common.chosen_model(model, formula),
                schema=declared,
                rows=rows,
                budget=Budget(epsilon=epsilon, delta=delta, adjacency=adjacency),
                target=common.targets(target),
                features=common.listed(features),
                family=family,
                priors=common.priors(prior),
                method=method,
                plan=None if plan is None else Plan.load(plan),
                stress=stress,
                simulations=simulations,
                public_sample=common.read_public_sample(public_sample, declared),
                covariate_share=covariate_share,
                test_rows=test_rows,
                seed=seed,
                jobs=jobs,
                backend=backend,
                folder=folder,
                progress=progress,
            )
        page = write_or_rescue(found.report, output)
        _show_coverage(found)
        if stress:
            _show_stressed(found)
        common.out.print(f"\nPage: {page}")


def _show_stressed(found: Any) -> None:
    grid = common.table_of("tables", "95% intervals hold", "worst", "z sd", "not ok", "fits")
    for name, one in found.stress_table().items():
        grid.add_row(name, *one.values())
    common.out.print(grid)


def _show_coverage(found: Any) -> None:
    scores = found.scores
    common.out.print(f"\n{found.verdict.words}", style="bold", highlight=False, markup=False)
    for line in found.verdict.lines:
        common.out.print(f"- {line}", highlight=False, markup=False)
    common.out.print(
        f"joint coverage RMSE {found.rmse:.3f} (by chance alone: {found.floor:.3f}); z mean is "
        f"right at 0 (chance: ± {scores.z_mean_floor:.2f}), z sd at 1 (± {scores.z_sd_floor:.2f}); "
        f"{scores.failed} of {scores.fits} fits failed",
        highlight=False,
    )
    headings = (
        "parameter",
        "z mean",
        "z sd",
        "error",
        "reported sd",
        "single-release sd",
        "plain z sd",
    )
    grid = common.table_of(*headings)
    for row in found.table():
        z = [f"{row[name]:.2f}" for name in ("z_mean", "z_sd", "noise_unaware_z_sd")]
        sds = [f"{row[name]:.3g}" for name in ("error", "reported_sd", "single_release_sd")]
        grid.add_row(common.escaped(row["parameter"]), *z[:2], *sds, z[2])
    common.out.print(grid)
