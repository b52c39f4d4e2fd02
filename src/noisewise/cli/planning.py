"""`plan`: choose every setting on simulated data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise._files import check_writable, write_or_rescue
from noisewise.cli import common

_FILE = Path("plan.toml")


def plan(
    schema: Annotated[Path, typer.Argument(help=common.SCHEMA_HELP)],
    rows: Annotated[int, typer.Option(help="Rows to plan for, from public knowledge.")],
    epsilon: common.Epsilon,
    model: common.Model = None,
    formula: common.Formula = None,
    family: common.Family = None,
    prior: common.Priors = None,
    target: common.Target = None,
    delta: common.Delta = 1e-6,
    features: common.Features = None,
    adjacency: common.Adjacency = "add-remove",
    fits: Annotated[
        int, typer.Option(help="Simulated fits for each design; 0 is a quick guess.")
    ] = 24,
    recalibrate: Annotated[
        int, typer.Option(help="Fresh simulated fits of the best design, to recalibrate by.")
    ] = 128,
    method: common.Method = "dpvi",
    steps: Annotated[
        int | None, typer.Option(help="Steps of the fit; 4000, of dp-sep 400.")
    ] = None,
    public_sample: common.PublicRows = None,
    covariate_share: common.CovariateShare = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The plan file.")] = _FILE,
) -> None:
    """Choose every setting on simulated data and forecast the error bars; touches no row."""
    with common.one_line_errors():
        from noisewise.data import Schema
        from noisewise.mechanism import Budget
        from noisewise.planning import plan as make_plan
        from noisewise.planning.duration import Pace

        common.check_page(output, ".toml")
        check_writable(output.with_suffix(".html"))
        declared = Schema.from_toml(schema)
        pace = Pace(fits, recalibrate)
        with common.progress_bar("Simulated fits") as progress:

            def watched(done: int, most: int) -> None:
                progress(done, most)
                if (sentence := pace.estimate(done)) is not None:
                    common.err.print(sentence, highlight=False, markup=False)

            made = make_plan(
                common.chosen_model(model, formula),
                schema=declared,
                rows=rows,
                budget=Budget(epsilon=epsilon, delta=delta, adjacency=adjacency),
                target=common.targets(target),
                features=common.listed(features),
                family=family,
                priors=common.priors(prior),
                public_sample=common.read_public_sample(public_sample, declared),
                covariate_share=covariate_share,
                method=method,
                steps=steps,
                fits=fits,
                recalibrate=recalibrate,
                progress=watched,
            )
        write_or_rescue(made.save, output)
        page = made.report(output.with_suffix(".html"))
        sample = "" if public_sample is None else f" --public-sample {public_sample}"
        _show_forecast(made.forecast)
        common.out.print(
            f"\nSaved to {output}; open {page}\n"
            f"Next: noisewise fit DATA --plan {output}{sample} ..."
        )


def _show_forecast(forecast: Any) -> None:
    source = f"{forecast.fits} simulated fits" if forecast.fits else "an analytic guess"
    common.out.print(f"\nForecast from {source}")
    grid = common.table_of("parameter", "prior sd", "expected sd", "single-release sd")
    columns = (forecast.prior_sd, forecast.sd, forecast.single_release_sd)
    for name, *sds in zip(forecast.labels, *columns, strict=True):
        grid.add_row(common.escaped(name), *(f"{sd:.3g}" for sd in sds))
    common.out.print(grid)
    common.out.print(
        "Single-release sd: a yardstick, what spending the whole budget on one optimal noisy "
        "gradient would leave. Coefficients are those of the encoded features; positive "
        "parameters, such as a residual sd, are on the log scale.",
        highlight=False,
    )
