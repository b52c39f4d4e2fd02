"""DPVIm Figs. 1 to 3 (sec. 4.2, App. H and L): gradient rules for a generative model.

A mixture of 16 categorical products with a Poisson regression on top is fitted by every rule. The
errors are those of the regression's part, as in the paper; the rest decides how much of the clip
norm and of the noise is spent elsewhere.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from noisewise.dpvi import Trace
from noisewise.evaluation import mpae
from noisewise.guides import DiagonalGuide
from noisewise.models import Target
from noisewise.posterior import average
from noisewise.studies.core.comparison import Comparison
from noisewise.studies.core.lines import (
    Check,
    Line,
    Panel,
    Verdict,
    lies_beyond,
    stays_above,
)
from noisewise.studies.core.study import Column, Options, Part
from noisewise.studies.core.words import label
from noisewise.studies.dpvim import common
from noisewise.studies.dpvim import sharing_tables as tables
from noisewise.synthetic.generator import Generator
from noisewise.trials import Fit, fit_table, noise_multipliers

CLIP_NORMS = {
    "vanilla": (2.0,),
    "preconditioned": (4.0,),
    "aligned": (2.0,),
    "natural": (0.02, 0.1, 0.01),
    "aligned_natural": (0.02, 0.1, 0.01),
}
"""DPVIm App. F, and for natural gradients those of Figs. H.3 and H.4; the first is the rule's
own."""
SCALES = (0.01, 0.032, 0.1, 0.316, 1.0)
LENGTHS = (0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 8.0)
"""Of Fig. 2, in units of the study's epochs: 200 to 8000 for the paper's 1000."""
_LENGTH_PARTS = {"8": (8.0,), "4": (4.0,), "2": (2.0,), "1": LENGTHS[:5]}
"""Those that run together: the longest fits are most of the work and need not wait."""
_SHARED_LENGTH = 4.0
"""Of Fig. 3's fits."""
_LENGTH_RULES = ("vanilla", "preconditioned", "aligned")
_RADIUS = 2.0
_DRAWS_A_COPY = 50
_TIES = 2.0
"""Standard errors of the difference within which two rules are tied."""
_NOT_CONVERGED = 0.1
"""MPAE: a tenth of the way is left."""


class Prepared(NamedTuple):
    """What every part needs."""

    table: tables.SharingTable
    optimum: common.Optimum
    """Of the regression's part, without noise and clipping."""
    coefficients: np.ndarray
    """What an analyst of the original table finds."""
    noise: common.Noise


def _parts(options: Options) -> list[Part]:
    """Starts for every rule, lengths for those of Fig. 2, downstream for aligned (Fig. 3)."""
    found = [Part(rule, "starts") for rule in options.methods]
    lengths = [rule for rule in options.methods if rule in _LENGTH_RULES]
    found += [Part(rule, f"lengths_{part}") for part in _LENGTH_PARTS for rule in lengths]
    return found + [Part(rule, "downstream") for rule in options.methods if rule == "aligned"]


def _prepare(options: Options) -> Prepared:
    """The table, the optimum and the noise that its budgets need."""
    folder = options.folder
    table = tables.simulate_table() if folder is None else tables.read_israel(folder)
    cells = tables.regression_cells(table.model(), table.codes)
    wanted = [(options.epsilons[0], length) for length in LENGTHS]
    wanted += [(epsilon, _SHARED_LENGTH) for epsilon in options.epsilons]
    steps = [(epsilon, common.fit_steps(length * options.epochs)) for epsilon, length in wanted]
    noise = noise_multipliers(common.RATE, steps, delta=1 / len(table.codes[table.target]))
    coefficients, _ = tables.poisson_coefficients(cells)
    return Prepared(table, common.find_optimum(cells), coefficients, noise)


def _run(part: Part, options: Options, prepared: Prepared) -> list[Line]:
    if part.group == "lengths":
        lengths = _LENGTH_PARTS[part.variant.removeprefix("lengths_")]
        return _run_lengths(part.method, lengths, options, prepared)
    runs = {"starts": _run_starts, "downstream": _run_downstream}
    return runs[part.variant](part.method, options, prepared)


class _Design(NamedTuple):
    """What tells fits of one part apart, repeats aside."""

    clip_norm: float
    scale: float
    epsilon: float
    length: float


class _Fits(NamedTuple):
    """All fits of one part."""

    target: Target
    starts: np.ndarray
    """Initial means, repeats x coordinates."""
    traces: list[list[Trace]]
    """By design, repeat by repeat."""


def _fit(
    rule: str, designs: list[_Design], options: Options, prepared: Prepared, block_steps: int
) -> _Fits:
    """Means start where NumPyro's automatic guides do, uniformly within 2 of zero; a repeat starts
    at the same place under every design."""
    target = prepared.table.bound()
    rng = np.random.default_rng([options.seed, 2])
    starts = rng.uniform(-_RADIUS, _RADIUS, (options.fits, target.dim))
    fits = []
    for design in designs:
        epochs = design.length * options.epochs
        settings = common.rule_settings(
            rule, clip_norm=design.clip_norm, initial_sd=design.scale, epochs=epochs
        )
        noise = prepared.noise[design.epsilon, settings.steps]
        fits += [
            Fit(settings, noise, jax.random.PRNGKey(1000 * options.seed + repeat), start)
            for repeat, start in enumerate(starts)
        ]
    found = fit_table(target, prepared.table.rows(), fits, block_steps)
    return _Fits(target, starts, common.by_repeats(found, options.fits))


class _Errors(NamedTuple):
    """MPAE of the regression's means and sds."""

    means: np.ndarray
    scales: np.ndarray


def _errors(
    iterates: np.ndarray, starts: np.ndarray, scale: float, optimum: common.Optimum
) -> _Errors:
    """``iterates`` are repeats x ... x parameters."""
    width = len(optimum.mean)
    means, free = np.split(np.asarray(iterates, float), 2, axis=-1)
    begun = starts[:, -width:].reshape(len(starts), *[1] * (iterates.ndim - 2), width)
    sds = common.softplus(free[..., -width:])
    return _Errors(
        means=mpae(means[..., -width:], begun, optimum.mean),
        scales=mpae(sds, np.full(width, scale), optimum.sd),
    )


def _pair(panel: str, name: str, x: Sequence[float], errors: _Errors) -> list[Line]:
    """Lines of the panels of means and of scales; errors are places x repeats."""
    return [
        Line(panel=f"{panel} {what}", name=name, x=tuple(x), values=values)
        for what, values in errors._asdict().items()
    ]


def _run_starts(rule: str, options: Options, prepared: Prepared) -> list[Line]:
    """Figs. 1, H.1 to H.4 and L.1: errors over initial sds, their traces, gradient norms."""
    own, *others = CLIP_NORMS[rule]
    first = options.epsilons[0]
    designs = [_Design(own, scale, first, 1.0) for scale in SCALES]
    designs += [_Design(clip_norm, 1.0, first, 1.0) for clip_norm in others]
    fits = _fit(rule, designs, options, prepared, options.epochs)
    lines, last = [], []
    for design, repeats in zip(designs, fits.traces, strict=True):
        # Iterates where blocks start, and the last.
        path = np.stack([np.append(one.blocks.start, one.last[None], axis=0) for one in repeats])
        errors = _errors(path, fits.starts, design.scale, prepared.optimum)
        if design.clip_norm == own:
            last.append((errors.means[:, -1], errors.scales[:, -1]))
        lines += _trace_lines(rule, design, options.epochs, errors)
    ends = _Errors(*np.stack(last, axis=1))
    lines += _pair("start", rule, SCALES, ends)
    places = tuple(ends.scales.mean(1).tolist())
    lines.append(Line(panel="trade-off", name=rule, x=places, values=ends.means))
    settings = common.rule_settings(rule, clip_norm=own, initial_sd=0.1, epochs=1)
    rows = prepared.table.rows()
    return lines + tables.norm_lines(fits.target, rows, settings, fits.starts[0])


def _trace_lines(rule: str, design: _Design, epochs: int, errors: _Errors) -> list[Line]:
    """A pair of lines for each panel of traces that shows this fit."""
    natural = rule in ("natural", "aligned_natural")
    traced = design.scale in (1.0, 0.1, 0.01) and not natural
    panels = [f"trace {design.scale:g}"] if traced else []
    if design.scale == 1.0 and (natural or rule in ("vanilla", "aligned")):
        panels.append("natural")
    own = design.clip_norm == CLIP_NORMS[rule][0]
    name = rule if own else f"{rule}, C = {design.clip_norm:g}"
    x = np.linspace(0, epochs, errors.means.shape[1]).tolist()
    turned = _Errors(errors.means.T, errors.scales.T)
    lines = [line for panel in panels for line in _pair(panel, name, x, turned)]
    return [line._replace(dashed=not own) for line in lines]


def _run_lengths(
    rule: str, lengths: tuple[float, ...], options: Options, prepared: Prepared
) -> list[Line]:
    """Fig. 2: errors at the end of fits of other lengths, each with the whole budget."""
    own = CLIP_NORMS[rule][0]
    designs = [_Design(own, 1.0, options.epsilons[0], length) for length in lengths]
    fits = _fit(rule, designs, options, prepared, 2 * options.epochs)
    found = [
        _errors(np.stack([trace.last for trace in repeats]), fits.starts, 1.0, prepared.optimum)
        for repeats in fits.traces
    ]
    epochs = [length * options.epochs for length in lengths]
    return _pair("length", rule, epochs, _Errors(*np.stack(found, axis=1)))


def _run_downstream(rule: str, options: Options, prepared: Prepared) -> list[Line]:
    """Fig. 3: error of what is found in synthetic tables, from the last iterate and averaged."""
    own = CLIP_NORMS[rule][0]
    designs = [_Design(own, 1.0, epsilon, _SHARED_LENGTH) for epsilon in options.epsilons]
    block = round(_SHARED_LENGTH * options.epochs)
    fits = _fit(rule, designs, options, prepared, block)
    # One for all: it compiles when it first draws.
    generator = Generator(fits.target, prepared.table.view())
    guides = {
        "last iterate": [[trace.last for trace in each] for each in fits.traces],
        "averaged": [[average(trace, common.SLOPE).mean for trace in each] for each in fits.traces],
    }
    lines = []
    for name, every in guides.items():
        errors = [_downstream(generator, one, options, prepared) for each in every for one in each]
        x, values = options.epsilons, np.reshape(errors, (-1, options.fits))
        lines.append(Line(panel="downstream", name=name, x=x, values=values))
    return lines


def _downstream(
    generator: Generator, parameters: np.ndarray, options: Options, prepared: Prepared
) -> float:
    """RMSE of the coefficients pooled over synthetic tables from the guide at these parameters."""
    if not np.isfinite(parameters).all():
        return np.nan
    copies = max(2, options.draws // _DRAWS_A_COPY)
    rng = np.random.default_rng([options.seed, 3])
    means, free = np.split(np.tile(np.asarray(parameters, float), (copies, 1)), 2, axis=1)
    thetas = DiagonalGuide(generator.target.dim).draw(means, free, rng)
    rows = len(prepared.table.codes[prepared.table.target])
    return tables.downstream_rmse(generator, thetas, rows, prepared.coefficients, seed=options.seed)


_PAIRS = {
    "start": ("Fig. H.1", "initial sd"),
    "trace 1": ("Fig. 1b, initial sd 1", "epoch"),
    "trace 0.1": ("Fig. H.2, 0.1", "epoch"),
    "trace 0.01": ("Fig. H.2, 0.01", "epoch"),
    "natural": ("Figs. H.3, H.4", "epoch"),
    "length": ("Fig. 2", "epochs"),
}
"""Panels of means and of scales: title and axis."""
_PANELS = (
    Panel("trade-off", "Fig. 1a", "MPAE of sds", "MPAE of means", log_x=True, log_y=True),
    *(
        Panel(f"{name} {what}", f"{title}: {words}", x, "MPAE", log_x=x != "epoch", log_y=True)
        for name, (title, x) in _PAIRS.items()
        for what, words in (("means", "means"), ("scales", "sds"))
    ),
    Panel("downstream", "Fig. 3: aligned", "ε", "RMSE of coefficients", log_x=True),
    *(
        Panel(f"norms {rule}", f"Fig. L.1: {label(rule)}", "log10 norm", "share")
        for rule in tables.NORM_RULES
    ),
)


def _at_the_end(panel: str, check: Check) -> Check:
    """The same check on the last place of the panel's axis alone."""

    def ends_only(lines: Sequence[Line]) -> Verdict:
        some = [line for line in lines if line.panel == panel]
        return check([line._replace(x=line.x[-1:], values=line.values[-1:]) for line in some])

    return ends_only


def _is_best(panel: str, others: tuple[str, ...], better: str = "aligned") -> Check:
    return lies_beyond(panel, better, others, ties=_TIES)


DATA_SHARING = Comparison(
    name="data-sharing",
    title="DPVIm, Figs. 1 to 3: gradient rules for a generative model, and its tables",
    columns=tuple(Column(epsilon) for epsilon in (1.0, 2.0, 4.0, 10.0)),
    methods=common.RULES,
    fits=10,
    epochs=1000,
    panels=_PANELS,
    parts=_parts,
    prepare=_prepare,
    run=_run,
    claims={
        "aligned best or tied in MPAE of sds at every initial sd": _is_best(
            "start scales", ("vanilla", "preconditioned")
        ),
        "aligned best or tied in MPAE of means at every initial sd": _is_best(
            "start means", ("vanilla", "preconditioned")
        ),
        "aligned best or tied with the natural variants in MPAE of means, from initial sd 1": (
            _at_the_end("natural means", _is_best("natural means", ("natural", "aligned_natural")))
        ),
        "aligned best or tied in MPAE of sds at every length": _is_best(
            "length scales", ("vanilla", "preconditioned")
        ),
        f"vanilla's sds have not converged in the longest fit: MPAE above {_NOT_CONVERGED:g}": (
            _at_the_end("length scales", stays_above("length scales", "vanilla", _NOT_CONVERGED))
        ),
        "downstream, averaged iterates best or tied with the last at every ε": _is_best(
            "downstream", ("last iterate",), better="averaged"
        ),
    },
    notes=(
        "UK Biobank's table is closed. With --data: the Israeli COVID-19 tests up to 31 March 2020 "
        "without missing values; without: a table of the paper's size drawn from the model.",
        "MPAE (eq. 23) is over the regression's means, and over its sds as in the authors' code.",
        "The reference is the optimum of the regression's part of the ELBO, by Newton's method: it "
        "has no parameter in common with the mixture, so it is the same from every start.",
        f"Initial sds {', '.join(f'{scale:g}' for scale in SCALES)}; lengths are "
        f"{', '.join(f'{length:g}' for length in LENGTHS)} times the epochs, each with the whole "
        "budget at the first ε; means start uniformly within 2 of zero; δ = 1/N.",
        "Ties are within two standard errors of the difference.",
        "Downstream: one synthetic table for each 50 of --draws (the paper has 100 tables).",
    ),
)
