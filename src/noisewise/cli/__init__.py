"""The command line: parse, call, print; no maths."""

from importlib.metadata import version
from typing import Annotated

import typer

from noisewise.cli.audit import audit
from noisewise.cli.common import speaking_flags
from noisewise.cli.coverage import coverage
from noisewise.cli.demonstration import demo
from noisewise.cli.fitting import fit, keys, report, verify
from noisewise.cli.ledgers import ledger
from noisewise.cli.planning import plan
from noisewise.cli.predicting import predict
from noisewise.cli.schemas import schema
from noisewise.cli.studies import study
from noisewise.cli.synthesis import synthesize

_HELP = """
Differentially private Bayesian inference that knows its own noise.

A schema declares what is publicly known about a table: types, bounds,
categories; never anything read from it. A fit spends an (epsilon, delta)
budget on the table once and returns a posterior whose error bars include the
privacy noise, with a certificate of what was spent.

[bold]Start here[/bold]

  noisewise demo            real health data, two minutes, one HTML report
  noisewise schema new people.csv   begin a schema; no value is read
  noisewise plan people.toml --rows 20000 --target visited --epsilon 1
  noisewise fit people.csv --schema people.toml --model logistic \\
            --target visited --epsilon 1 --delta 1e-6 -o out
  noisewise verify out      recompute the certificate's epsilon
  noisewise report out      write the report again
  noisewise synthesize out  synthetic tables, at no further privacy cost
  noisewise ledger init people.db --epsilon 3   all that may ever be spent
  noisewise audit           attack the mechanism: is the claim true?
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


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("noisewise"))
        raise typer.Exit


@app.callback()
def _options(
    told: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Say the version, and end."
        ),
    ] = False,
) -> None:
    pass


# The order here is the order of the help page.
for command in (fit, plan, coverage, predict, synthesize, study, report, verify, keys, audit, demo):
    app.command()(speaking_flags(command))
app.add_typer(schema, name="schema")
app.add_typer(ledger, name="ledger")

main = app
"""By which scripts that were installed before `noisewise.__main__` start."""
