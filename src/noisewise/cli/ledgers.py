"""`ledger`: what was spent on a table, by whom, and what is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise._validate import NoisewiseError
from noisewise.cli import common

ledger = typer.Typer(
    help="A table's ledger: everything released of it, in one account that is never overspent.",
    no_args_is_help=True,
)
_File = Annotated[Path, typer.Argument(help="The ledger: one SQLite file.")]
_SHOWN = 20


def init(
    file: _File,
    epsilon: Annotated[float, typer.Option(help="All that may ever be spent on the table.")],
    delta: Annotated[float, typer.Option(help="Of the total, and the most of a fit.")] = 1e-6,
    adjacency: common.Adjacency = "add-remove",
    name: Annotated[str, typer.Option(help="Of the table or registry (the file's name).")] = "",
    spender: Annotated[
        list[str] | None,
        typer.Option(help="Account that may spend; may be repeated. None: whoever can write."),
    ] = None,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="For a PUBLIC table: seeded fits are accepted.")
    ] = False,
) -> None:
    """Make a ledger with a total budget, which cannot be changed afterwards."""
    with common.one_line_errors():
        from noisewise.mechanism import Budget, Ledger

        total = Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)
        Ledger.create(file, total, name=name, spenders=spender or (), rehearsal=rehearsal)
        common.out.print(
            f"Made {file}: epsilon {epsilon:g} in all at delta {delta:g}, {adjacency} adjacency.\n"
            f"Next: noisewise fit DATA --ledger {file} --purpose '...' ...",
            highlight=False,
            markup=False,
        )


def show(
    file: _File,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the page, too: an .html file.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Of further fits (what the last one was given).")
    ] = None,
) -> None:
    """What was spent, what is left, and what further fits would cost."""
    with common.one_line_errors():
        from noisewise._validate import positive
        from noisewise.mechanism import Ledger

        if output is not None:
            common.check_page(output, ".html")
        if epsilon is not None:
            positive("epsilon", epsilon, finite=True)
        account = Ledger(file).account()
        _show_account(account)
        _show_entries(account)
        _show_further(account, epsilon)
        if output is not None:
            common.out.print(f"\nWrote {Ledger(file).report(output)}")


def export(
    file: _File,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new .json file.")],
) -> None:
    """Every line of the ledger as JSON, for auditors."""
    with common.one_line_errors():
        from noisewise.mechanism import Ledger

        common.check_page(output, ".json")
        plain = Ledger(file).export()
        try:
            with output.open("x", encoding="utf-8") as handle:
                handle.write(json.dumps(plain, indent=2) + "\n")
        except OSError as error:
            raise NoisewiseError(f"cannot write {output}: {error.strerror}") from None
        common.out.print(f"Wrote {output}")


for _command in (init, show, export):
    ledger.command()(common.speaking_flags(_command))


def _show_account(account: Any) -> None:
    total = account.total
    lines = [
        f"{account.name}: epsilon {account.spent:.3g} of {total.epsilon:g} is spent, at delta "
        f"{total.delta:g} under {total.adjacency} adjacency.",
        f"At most epsilon {account.left:g} is left for one more fit."
        if account.left
        else "Nothing is left.",
    ]
    if account.spenders:
        lines.append(f"Spenders: {', '.join(account.spenders)}.")
    if account.rehearsal:
        lines.insert(0, "A REHEARSAL: seeded fits are accepted, and nothing is guaranteed.")
    common.out.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _show_entries(account: Any) -> None:
    grid = common.table_of("", "time (UTC)", "spender", "purpose", "what", "epsilon", "state")
    for entry in account.entries[-_SHOWN:]:
        cells = (entry.time[:16].replace("T", " "), entry.spender, entry.purpose, entry.what)
        numbers = (f"{entry.budget.epsilon:g}", entry.state)
        grid.add_row(str(entry.number), *(common.escaped(cell) for cell in (*cells, *numbers)))
    if account.entries:
        common.out.print(grid)
    if len(account.entries) > _SHOWN:
        common.out.print(f"The last {_SHOWN} of {len(account.entries)} entries.")


def _show_further(account: Any, epsilon: float | None) -> None:
    from noisewise.mechanism.account import FURTHER

    if epsilon is None:
        epsilon = account.entries[-1].budget.epsilon if account.entries else None
    if epsilon is None:
        return
    costs = ", ".join(f"{k}: {account.after_fits(epsilon, k):.3g}" for k in FURTHER)
    common.out.print(
        f"Further fits at epsilon {epsilon:g} would bring it to, at most, {costs}; "
        f"{account.fits_left(epsilon)} are left.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
