"""`fit`, `report` and `verify`: spend a budget on a table, and look at what came out."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise._files import write_or_rescue
from noisewise._validate import NoisewiseError
from noisewise.cli import common


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="The table: .csv, .csv.gz or .parquet; with --cache also a folder of Parquet "
            "files, or 'people/*.parquet'."
        ),
    ],
    schema: Annotated[Path, typer.Option(help=common.SCHEMA_HELP)],
    epsilon: common.Epsilon,
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the result.")],
    model: common.Model = None,
    formula: common.Formula = None,
    family: common.Family = None,
    prior: common.Priors = None,
    target: common.Target = None,
    delta: common.Delta = 1e-6,
    features: common.Features = None,
    adjacency: common.Adjacency = "add-remove",
    plan: common.PlanFile = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Number of steps (4000; a mixture 4000 to 20000; dp-sep 400, a network 800)."
        ),
    ] = None,
    public_sample: common.PublicRows = None,
    covariate_share: common.CovariateShare = None,
    misfit_share: common.MisfitShare = None,
    method: Annotated[
        str,
        typer.Option(
            help="dpvi, or dp-sep (linear, logistic, probit and network; a network needs it)."
        ),
    ] = "dpvi",
    keep: Annotated[
        str | None,
        typer.Option(
            help="Of units with more rows than declared keep the first or random ones; this "
            "changes the data."
        ),
    ] = None,
    clamp: Annotated[
        bool, typer.Option(help="Clamp values outside their bounds instead of refusing them.")
    ] = False,
    ignore_undeclared: Annotated[
        bool, typer.Option(help="Leave out columns that the schema does not declare.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for the encoded rows, which are then read from disk: it needs the "
            "data's own protection, and is deleted afterwards."
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(help="With --cache: about how much memory to take.")
    ] = "4GiB",
    keep_cache: Annotated[
        bool, typer.Option(help="Leave the cache there for further fits.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option(help="Replace an earlier result in that folder.")
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(help="The table's ledger (`noisewise ledger init`), which this fit spends."),
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(help="A private key of `noisewise keys` to sign with."),
    ] = None,
    purpose: Annotated[str, typer.Option(help="What for: written into the ledger.")] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a fit that was stopped: OUTPUT.checkpoint.")
    ] = False,
    devices: common.NumberOfDevices = "1",
    hosts: Annotated[
        str | None,
        typer.Option(
            help="One fit on several hosts: auto under srun or mpirun, or ADDRESS:PORT,INDEX/COUNT "
            "such as node1:7000,0/4 on the first of four."
        ),
    ] = None,
    insecure_seed: Annotated[
        int | None, typer.Option(help="Repeatable and therefore NOT PRIVATE: for tests only.")
    ] = None,
) -> None:
    """Fit a model to a table under differential privacy; save posterior, certificate and report."""
    kept = Path(f"{output}.checkpoint")
    with common.one_line_errors(kept, "--resume"):
        from noisewise._hosts import hosts_named
        from noisewise.data import Schema
        from noisewise.engine import remove_checkpoint
        from noisewise.fitting import fit as run_fit
        from noisewise.mechanism import Budget, Ledger
        from noisewise.planning import Plan
        from noisewise.result import check_free
        from noisewise.result.signature import read_private

        first = hosts_named(hosts).is_first  # the one that writes and speaks
        if first:
            _refuse_by_what_is_there(output, kept, overwrite=overwrite, resume=resume)
            check_free(output, overwrite=overwrite)
        if public_sample is not None and public_sample.resolve() == data.resolve():
            raise NoisewiseError(
                f"the public sample {public_sample} is the table itself: its rows are not public"
            )
        if purpose and ledger is None:
            raise NoisewiseError("--purpose is written into a ledger: add --ledger FILE")
        book = None if ledger is None else Ledger(ledger, purpose=purpose)
        if book is not None and first:
            book.account()  # one that cannot be read is said before the table is
        key = None if sign is None else read_private(sign)
        budget = Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)
        planned = None if plan is None else Plan.load(plan)
        declared = Schema.from_toml(schema)
        table = _table(
            data,
            declared,
            cache,
            memory=memory,
            keep_cache=keep_cache,
            keep=keep,
            clamp=clamp,
            ignore_undeclared=ignore_undeclared,
            speaks=first,
        )
        with table, common.progress_bar("Private fit", visible=first) as progress:
            result = run_fit(
                common.chosen_model(model, formula),
                table,
                budget=budget,
                target=common.targets(target),
                features=common.listed(features),
                family=family,
                priors=common.priors(prior),
                plan=planned,
                steps=steps,
                public_sample=common.read_public_sample(public_sample, declared),
                covariate_share=covariate_share,
                misfit_share=misfit_share,
                method=method,
                insecure_seed=insecure_seed,
                progress=progress,
                ledger=book,
                checkpoint=kept,
                resume=resume,
                devices=common.device_number(devices),
            )
        if not first:
            return
        if key is not None:
            result = result.sign(key)
        write_or_rescue(lambda place: result.save(place, overwrite=overwrite), output)
        remove_checkpoint(kept)
        _report(result, output)
        _show_summary(result)
        if book is not None:
            account = book.account()
            common.out.print(
                f"Ledger {ledger}: epsilon {account.spent:.3g} of {account.total.epsilon:g} is "
                f"spent; at most {account.left:g} is left for one more fit.",
                highlight=False,
                markup=False,
            )
        common.out.print(f"\nSaved to {output}; open {output / 'report.html'}")
        if result.status.value == "diverged":
            raise typer.Exit(1)


def _table(
    data: Path,
    schema: Any,
    cache: Path | None,
    *,
    memory: str,
    keep_cache: bool,
    keep: str | None,
    speaks: bool,
    **checks: bool,
) -> Any:
    """In memory, or on disk where a place for it was named."""
    from noisewise.data import Table

    if cache is not None:
        if keep is not None:
            raise NoisewiseError("keep is for units, whose rows --cache does not take: drop one")
        with common.progress_bar("Checking and encoding rows", visible=speaks) as progress:
            return Table.open(
                data,
                schema,
                cache=cache,
                memory=memory,
                keep_cache=keep_cache,
                progress=progress,
                **checks,
            )
    if data.is_dir() or (not data.exists() and "*" in data.name):
        raise NoisewiseError(
            f"{data} is of many files: add --cache FOLDER, where their encoded rows may lie"
        )
    if keep_cache:
        raise NoisewiseError("--keep-cache leaves the cache there: add --cache FOLDER")
    return Table.read(data, schema, keep=keep, **checks)


def _refuse_by_what_is_there(output: Path, kept: Path, *, overwrite: bool, resume: bool) -> None:
    """A checkpoint is neither passed over nor lost."""
    if not os.path.exists(kept):  # Path.exists raises where a name is too long
        return
    if output.exists() and not overwrite:
        raise NoisewiseError(
            f"{output} exists already, and {kept} beside it: if that was of this very fit, delete "
            f"it; to go on with it and replace {output}, pass --resume --overwrite"
        )
    if not resume:
        raise NoisewiseError(
            f"{kept} holds a fit that was stopped: go on with it by "
            f"`{common.this_command('--resume')}`, or delete it to start anew, which spends again"
        )


def _report(result: Any, folder: Path) -> None:
    """The page; whatever goes wrong with it, the result is there and must not seem lost."""
    try:
        result.report(folder / "report.html")
    except Exception as error:
        reason = " ".join(str(error).split()) if isinstance(error, NoisewiseError) else ""
        raise NoisewiseError(
            f"the result is saved to {folder}, but the page about it could not be made "
            f"({reason or type(error).__name__}): try `noisewise report {folder}`"
        ) from error


def report(
    folder: common.ResultFolder,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page (FOLDER/report.html).")
    ] = None,
) -> None:
    """Write the HTML report of a saved result."""
    with common.one_line_errors():
        from noisewise.result import Result

        path = Result.load(folder).report(output or folder / "report.html")
        common.out.print(f"Wrote {path}")


def verify(
    folder: common.ResultFolder,
    key: Annotated[
        Path | None, typer.Option(help="A public key: the result must be signed with its partner.")
    ] = None,
) -> None:
    """Recompute a saved result's epsilon from its releases; exits with 1 if the claim fails."""
    with common.one_line_errors():
        from noisewise.result import Result

        result = Result.load(folder)
        check = result.verify()
        said = [str(result.privacy), str(check)]
        good = check.holds and result.privacy.private
        if key is not None:
            signed = result.signed_by(key)
            said.append(f"signature {'holds' if signed else 'DOES NOT HOLD'} by the key {key}")
            good = good and signed
        elif result.signature is not None:
            said.append(f"signed with {result.signature.public_key}: to check it, pass --key")
        common.out.print("\n".join(said), highlight=False, markup=False, soft_wrap=True)
        if not good:
            raise typer.Exit(1)


def keys(
    folder: Annotated[Path, typer.Argument(help="Where private.pem and public.pem go.")],
) -> None:
    """Make a pair of keys: sign results with the private one, give the public one away."""
    with common.one_line_errors():
        from noisewise.result.signature import make_keys

        private, public = make_keys(folder)
        common.out.print(
            f"Made {private}, to be kept to yourself (fit --sign {private}), and {public}, to be "
            f"given to whoever checks (verify OUT --key {public}).",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _show_summary(result: Any) -> None:
    kinds = {"naive": "Plain DPVI", "averaged": "DPVIm's averaged posterior"}
    kind = kinds.get(result.request.posterior, "Noise-aware posterior")
    common.out.print(f"\n{kind}")
    found = result.summary()
    grid = common.table_of(str(found.index.name), "mean", "sd", "95% interval")
    for name, row in found.iterrows():
        interval = f"[{row['lower']:.4g}, {row['upper']:.4g}]"
        cells = (str(name), f"{row['mean']:.4g}", f"{row['sd']:.2g}", interval)
        grid.add_row(*map(common.escaped, cells))
    common.out.print(grid)
    _show_ratios(result)
    common.out.print(str(result.privacy), highlight=False, markup=False)
    for note in result.notes:
        common.out.print(f"Note: {note}", highlight=False, markup=False)
    common.out.print(f"\nStatus: {result.status.words}.")


def _show_ratios(result: Any) -> None:
    """Odds ratios and the like: what people quote."""
    from noisewise.report.ratios import ratio_groups

    for group in ratio_groups(result):
        common.out.print(f"{group.title}, other features equal", markup=False, highlight=False)
        grid = common.table_of("change", group.name, "95% interval", "in words")
        for line in group.lines:
            cells = (line.label, line.ratio, line.interval, line.words)
            grid.add_row(*map(common.escaped, cells))
        common.out.print(grid)
