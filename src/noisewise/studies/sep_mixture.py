"""The DP-SEP paper's mixture of Gaussians (DP-SEP sec. 6.1, Table 1, Fig. 1)."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from noisewise.dpsep import expected_kl, paper_expression
from noisewise.studies.claims import lies_beyond, reaches
from noisewise.studies.cluster_figure import draw_clusters
from noisewise.studies.mixture_tables import (
    COMPONENTS,
    ROWS,
    WIDTH,
    Posteriors,
    divergences,
    gibbs,
    mixture_tables,
    norms,
)
from noisewise.studies.rules import Claim, Comparison, Line, Options, Panel, Part
from noisewise.studies.sep_mixture_fits import (
    CLIPS,
    GAMMAS,
    LITERAL_CLIP,
    METHODS,
    NOISE_AWARE,
    RADIUS,
    Fitted,
    Prepared,
    literal_fits,
)

__all__ = ["SEP_MIXTURE"]

_STEP_DRAWS = 200
_PAPER = {
    "sep": {math.inf: (0.0020, 0.0004)},
    "clipped-sep, C = 1": {math.inf: (2.2065, 0.0459)},
    "clipped-sep, C = 10": {math.inf: (1.4950, 0.0005)},
    "clipped-sep, C = 20": {math.inf: (0.0263, 0.0004)},
    "dp-sep": {1.0: (82.9746, 5.0777), 5.0: (12.1623, 1.0655), 50.0: (2.2411, 0.0358)},
    "dp-em": {1.0: (7.5166, 57.8665), 5.0: (10.4548, 3.7573), 50.0: (5.3769, 1.3189)},
}
"""Table 1: F-norm on mean, F-norm on covariance; means over five runs."""
_GOALS = {1.0: (1.14, 0.005), 5.0: (0.35, 0.0015), 50.0: (0.05, 0.0005)}
"""The best honest figures of earlier trials, mean and covariance each on its own."""


def _parts(options: Options) -> list[Part]:
    """Algorithm 3 takes most of the time: a part for each budget."""
    parts = [Part(method) for method in options.rules if method in METHODS]
    if "literal" in options.rules:
        parts += [Part("literal", f"{epsilon:g}") for epsilon in options.epsilons]
    return parts


def _prepare(options: Options) -> Prepared:
    tables = mixture_tables(options.fits, options.seed)
    rng = np.random.default_rng([options.seed, ROWS])
    starts = rng.standard_normal((options.fits, COMPONENTS * WIDTH)).astype(np.float32)
    return Prepared(tables, starts, gibbs(tables, options.seed))


def _run(part: Part, options: Options, prepared: Prepared) -> list[Line]:
    if part.rule != "literal":
        fits = METHODS[part.rule](options, prepared)
        return [line for fitted in fits for line in _measured(fitted, prepared.reference)]
    epsilon = float(part.variant)
    found, noise = literal_fits(epsilon, options, prepared)
    lines = [line for fitted in found for line in _measured(fitted, prepared.reference)]
    return lines + _one_step(epsilon, noise, prepared.reference)


def _measured(fitted: Fitted, reference: Posteriors) -> list[Line]:
    """Distances to the reference, what was spent, and the posterior itself for the figure."""
    name, place = fitted.name, (fitted.epsilon,)
    means, covariances = norms(fitted.posteriors, reference)
    lines = [Line("divergence", name, place, divergences(reference, fitted.posteriors)[None])]
    if not name.endswith(NOISE_AWARE):  # the same mean, and wider on purpose
        lines.append(Line("mean", name, place, means[None]))
        lines.append(Line("covariance", name, place, covariances[None]))
    if fitted.spent is not None:
        lines.append(Line("spent", name, place, np.array([[fitted.spent]])))
    tables = len(means)
    flat = np.concatenate([part.reshape(tables, -1) for part in fitted.posteriors], axis=1).T
    places = tuple(float(number) for number in range(len(flat)))
    lines.append(Line("posteriors", _at_budget(name, fitted.epsilon), places, flat))
    return lines


def _at_budget(name: str, epsilon: float) -> str:
    return name if math.isinf(epsilon) else f"{name}, ε = {epsilon:g}"


def _one_step(epsilon: float, noise: float, reference: Posteriors) -> list[Line]:
    """Defs. 4.1 and 4.2: the reference, made isotropic, before and after one noisy step.

    The expected divergence by Monte Carlo, and what Theorem 4.1 says; components add up.
    """
    lines = []
    for words, gamma in GAMMAS.items():
        sd = noise * 2 * LITERAL_CLIP * gamma / ROWS
        found = np.zeros((2, len(reference.means)))
        for table, component in np.ndindex(reference.means.shape[:2]):
            value = WIDTH / np.trace(reference.covariances[table, component])
            step = (value * reference.means[table, component], value * np.eye(WIDTH), sd, sd)
            truth = expected_kl(*step, ridge=value, draws=_STEP_DRAWS, seed=table)
            found[:, table] += truth.mean, paper_expression(*step, ridge=value)
        for name, values in zip(("Monte Carlo", "Theorem 4.1"), found, strict=True):
            lines.append(Line("step", f"{name}, {words}", (epsilon,), values[None]))
    return lines


def _paper(which: int) -> dict[str, dict[float | str, float | tuple[float, float]]]:
    return {
        name: {place: figures[which] for place, figures in places.items()}
        for name, places in _PAPER.items()
    }


def _panel(name: str, title: str, y: str, which: int | None = None) -> Panel:
    paper = None if which is None else _paper(which)
    return Panel(name, title, "ε", y, log_x=True, log_y=True, middle="median", paper=paper)


SEP_MIXTURE = Comparison(
    panels=(
        _panel("mean", "Table 1: mean", "F-norm", 0),
        _panel("covariance", "Table 1: covariance", "F-norm", 1),
        _panel("divergence", "KL(reference || posterior)", "KL"),
        _panel("step", "One noisy step (Theorem 4.1)", "expected KL"),
        _panel("spent", "What is really spent", "ε spent"),
        Panel("posteriors", "Posteriors", "means, then covariances", "value", shown=False),
    ),
    parts=_parts,
    prepare=_prepare,
    run=_run,
    claims=(
        *(
            Claim(
                f"DP-SEP's {panel} within the goal at every ε",
                reaches(
                    panel,
                    "dp-sep",
                    {place: figures[which] for place, figures in _GOALS.items()},
                    middle="median",
                ),
            )
            for which, panel in enumerate(("mean", "covariance"))
        ),
        *(
            Claim(
                f"DP-SEP's {panel} closer than {words} at every ε",
                lies_beyond(panel, "dp-sep", others, middle="median"),
            )
            for panel in ("mean", "covariance")
            for words, others in (
                ("DP-EM's", ("dp-em",)),
                ("Algorithm 3's", tuple(f"literal, {words}" for words in GAMMAS)),
            )
        ),
        *(
            Claim(
                f"clipped SEP's mean closer at C = {wide:g} than at C = {narrow:g}, as in the "
                "paper",
                lies_beyond(
                    "mean",
                    f"clipped-sep, C = {wide:g}",
                    (f"clipped-sep, C = {narrow:g}",),
                    middle="median",
                ),
            )
            for narrow, wide in pairwise(CLIPS)
        ),
        Claim(
            "the known noise added, DP-SEP's posterior is closer to the reference in KL at every ε",
            lies_beyond("divergence", f"dp-sep, {NOISE_AWARE}", ("dp-sep",), middle="median"),
        ),
    ),
    notes=(
        f"Every table has {ROWS:,} records of {COMPONENTS} Gaussians in {WIDTH} dimensions, "
        "centres, records, start and noise of its own; δ = 1e-5.",
        "The reference is a Gibbs run of 20,000 sweeps on the real mixture, assignments unknown; "
        "all orders of the components are tried. The paper's figures are means over five runs.",
        "SEP and clipped SEP take full steps (γ = N) for 20 passes; γ = N/10 50 passes; EP 10.",
        f"DP-EM: 10 iterations, joint clip, records longer than {RADIUS:g} shortened.",
        "Algorithm 3 has the noise of the paper's accounting at C = 1; what that spends is in the "
        "last table.",
        "Theorem 4.1 is about one step at that noise; NaN where it says nothing.",
    ),
    repeats="tables",
    draw_more=draw_clusters,
)
