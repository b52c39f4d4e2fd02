"""`study`: the papers' tables and figures."""

import os
from pathlib import Path
from typing import Annotated

import typer

from noisewise._files import check_writable
from noisewise._validate import NoisewiseError, one_of
from noisewise.cli.common import listed, one_line_errors, out, progress_bar


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table3, figure1 (NA-DPVI); adult, full-rank, data-sharing "
            "(DPVIm); sep-mixture, sep-regression, sep-clipping (DP-SEP)."
        ),
    ],
    fits: Annotated[
        int | None, typer.Option(help="Simulated data sets (repeats) a column; else the paper's.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Length of a fit in a comparison of rules or methods; else the paper's."),
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Budgets instead of the paper's; may be repeated.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Methods or rules, by commas; nuts and plain-gibbs only when named."),
    ] = None,
    draws: Annotated[int, typer.Option(help="Posterior draws a fit.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the simulation and its noise.")] = 1,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the table: UCI's Adult files for table3, adult.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; else as many as cores.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or gpu; else what JAX finds.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for JSON, Markdown and figure.")
    ] = Path("studies"),
    parts: Annotated[
        str | None, typer.Option(help="Parts of a comparison, by commas; else all of them.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="A rehearsal's ledger, for studies of a real table.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished parts of a comparison that was cut off.")
    ] = False,
) -> None:
    """Re-run a table or figure of the three papers, their rivals and our own with it."""
    with one_line_errors():
        from noisewise.studies import run_study

        check_writable(output / "study.json")
        _use_device(device)
        with progress_bar("Parts of the study") as progress:
            found = run_study(
                name,
                fits=fits,
                epochs=epochs,
                epsilons=epsilon or (),
                methods=listed(methods) or (),
                draws=draws,
                seed=seed,
                data=data,
                jobs=jobs,
                keep=output,
                resume=resume,
                parts=listed(parts) or (),
                progress=progress,
                ledger=ledger,
            )
        out.print(found.to_markdown(), highlight=False, markup=False, soft_wrap=True)
        saved = " ".join(str(path) for path in found.save(output))
        out.print(f"\nSaved: {saved}")


def _use_device(device: str | None) -> None:
    """Ask JAX for a kind of device, before it has chosen one itself."""
    import jax

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
