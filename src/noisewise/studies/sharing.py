"""DPVIm's data-sharing experiment (DPVIm sec. 4.2, Figs. 1 to 3, App. H and L).

A mixture of 16 categorical products with a Poisson regression on top is fitted by every rule. The
errors are those of the regression's part, as in the paper; the rest decides how much of the clip
norm and of the noise is spent elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.dpvi import Settings, Trace
from noisewise.evaluation import mpae
from noisewise.guides import DiagonalGuide
from noisewise.models import Target
from noisewise.posterior import average
from noisewise.studies.downstream import downstream_rmse, poisson_coefficients, regression_cells
from noisewise.studies.lanes import Lane, fit_lanes, noise_for
from noisewise.studies.logistic_optimum import Optimum
from noisewise.studies.models import softplus, softplus_inverse
from noisewise.studies.norms import norm_lines
from noisewise.studies.poisson_optimum import poisson_optimum
from noisewise.studies.repeats import calibrated
from noisewise.studies.rules import Line, Options, Part
from noisewise.studies.sharing_tables import SharingTable, read_israel, simulate_table
from noisewise.synthetic.generator import Generator

__all__ = ["CLIP_NORMS", "LENGTHS", "SCALES", "parts", "prepare", "rule_settings", "run"]

CLIP_NORMS = {
    "vanilla": (2.0,),
    "preconditioned": (4.0,),
    "aligned": (2.0,),
    "natural": (0.02, 0.1, 0.01),
    "aligned_natural": (0.02, 0.1, 0.01),
}
"""App. F, and for natural gradients those of Figs. H.3 and H.4; the first is the rule's own."""
SCALES = (0.01, 0.032, 0.1, 0.316, 1.0)
LENGTHS = (0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 8.0)
"""Of Fig. 2, in units of the study's epochs: 200 to 8000 for the paper's 1000."""
_LENGTH_PARTS = {"8": (8.0,), "4": (4.0,), "2": (2.0,), "1": LENGTHS[:5]}
"""Those that run together: the longest fits are most of the work and need not wait."""
_SHARED_LENGTH = 4.0
"""Of Fig. 3's fits."""
_LENGTH_RULES = ("vanilla", "preconditioned", "aligned")
_RATE = 0.01
_RADIUS = 2.0
_SLOPE = 0.05
_DRAWS_A_COPY = 50


class Prepared(NamedTuple):
    """What every part needs."""

    table: SharingTable
    optimum: Optimum
    """Of the regression's part, without noise and clipping."""
    coefficients: np.ndarray
    """What an analyst of the original table finds."""
    noise: dict[tuple[float, int], float]
    """Multipliers by epsilon and number of steps."""


def rule_settings(rule: str, clip_norm: float, scale: float, steps: int) -> Settings:
    """App. F: Adam at 1e-3, sampling rate 0.01, prior inside the clip."""
    return Settings(
        rule=rule,
        clip_norm=clip_norm,
        precondition="slope" if rule == "preconditioned" else 1.0,
        sampling_rate=_RATE,
        steps=steps,
        guide_draws=1,
        learning_rate=1e-3,
        initial_free_scale=float(softplus_inverse(np.array(scale))),
        clip_prior=True,
        full_curvature=False,
        slope_threshold=_SLOPE,
    )


def parts(options: Options) -> list[Part]:
    """Starts for every rule, lengths for those of Fig. 2, downstream for aligned (Fig. 3)."""
    found = [Part(rule, "starts") for rule in options.rules]
    lengths = [rule for rule in options.rules if rule in _LENGTH_RULES]
    found += [Part(rule, f"lengths_{part}") for part in _LENGTH_PARTS for rule in lengths]
    return found + [Part(rule, "downstream") for rule in options.rules if rule == "aligned"]


def prepare(options: Options) -> Prepared:
    """The table, the optimum and the noise that its budgets need."""
    table = simulate_table() if options.folder is None else read_israel(options.folder)
    cells = regression_cells(table.model(), table.codes)
    first = options.epsilons[0]
    wanted = [(first, _steps(options, length)) for length in LENGTHS]
    wanted += [(epsilon, _steps(options, _SHARED_LENGTH)) for epsilon in options.epsilons]
    settings = rule_settings("vanilla", 2.0, 1.0, 100)
    noise = noise_for(settings, wanted, 1 / len(table.codes[table.target]))
    return Prepared(table, poisson_optimum(cells), poisson_coefficients(cells)[0], noise)


def run(part: Part, options: Options, prepared: Prepared) -> list[Line]:
    """One part's lines."""
    if part.group == "lengths":
        lengths = _LENGTH_PARTS[part.variant.removeprefix("lengths_")]
        return _run_lengths(part.rule, lengths, options, prepared)
    runs = {"starts": _run_starts, "downstream": _run_downstream}
    return runs[part.variant](part.rule, options, prepared)


def _steps(options: Options, length: float) -> int:
    return round(length * options.epochs / _RATE)


class _Design(NamedTuple):
    """What tells lanes of one part apart, repeats aside."""

    clip_norm: float
    scale: float
    epsilon: float
    length: float


def _fit(
    rule: str, designs: list[_Design], options: Options, prepared: Prepared, block_steps: int
) -> tuple[Target, np.ndarray, list[list[Trace]]]:
    """Traces of every design, repeat by repeat, and the starts (repeats x dim).

    Means start where NumPyro's automatic guides do, uniformly within 2 of zero; a repeat starts
    at the same place under every design.
    """
    target = prepared.table.built()
    rng = np.random.default_rng([options.seed, 2])
    starts = rng.uniform(-_RADIUS, _RADIUS, (options.fits, target.dim))
    lanes = []
    for design in designs:
        steps = _steps(options, design.length)
        settings = rule_settings(rule, design.clip_norm, design.scale, steps)
        noise = prepared.noise[design.epsilon, steps]
        mechanism = calibrated(settings, design.epsilon, 0.5, noise)
        lanes += [
            Lane(settings, mechanism, start, steps // block_steps, 1000 * options.seed + repeat)
            for repeat, start in enumerate(starts)
        ]
    traces = fit_lanes(target, prepared.table.rows(), lanes, block_steps)
    fits = options.fits
    grouped = [traces[first : first + fits] for first in range(0, len(traces), fits)]
    return target, starts, grouped


def _errors(
    iterates: np.ndarray, starts: np.ndarray, scale: float, optimum: Optimum
) -> tuple[np.ndarray, np.ndarray]:
    """MPAE of the regression's means and sds; ``iterates`` are repeats x ... x parameters."""
    width = len(optimum.mean)
    means, free = np.split(np.asarray(iterates, float), 2, axis=-1)
    begun = starts[:, -width:].reshape(len(starts), *[1] * (iterates.ndim - 2), width)
    off = mpae(means[..., -width:], begun, optimum.mean)
    return off, mpae(softplus(free[..., -width:]), np.full(width, scale), optimum.sd)


def _run_starts(rule: str, options: Options, prepared: Prepared) -> list[Line]:
    """Figs. 1 and H.1 to H.4: errors over initial sds, and their traces."""
    own, *others = CLIP_NORMS[rule]
    first = options.epsilons[0]
    designs = [_Design(own, scale, first, 1.0) for scale in SCALES]
    designs += [_Design(clip_norm, 1.0, first, 1.0) for clip_norm in others]
    target, starts, traces = _fit(rule, designs, options, prepared, options.epochs)
    lines, last = [], []
    for design, repeats in zip(designs, traces, strict=True):
        path = np.stack([_path(trace) for trace in repeats])
        means, sds = _errors(path, starts, design.scale, prepared.optimum)
        epochs = tuple(np.linspace(0, options.epochs, means.shape[1]).tolist())
        if design.clip_norm == own:
            last.append((means[:, -1], sds[:, -1]))
        lines += _trace_lines(rule, design, own, epochs, means, sds)
    ends = np.stack([[means, sds] for means, sds in last])
    lines.append(Line("start means", rule, SCALES, ends[:, 0]))
    lines.append(Line("start scales", rule, SCALES, ends[:, 1]))
    places = tuple(ends[:, 1].mean(1).tolist())
    lines.append(Line("trade-off", rule, places, ends[:, 0]))
    settings = rule_settings(rule, own, 0.1, 100)
    return lines + norm_lines(target, prepared.table.rows(), settings, starts[0])


def _path(trace: Trace) -> np.ndarray:
    """Iterates where blocks start, and the last."""
    return np.concatenate([np.asarray(trace.blocks.start), np.asarray(trace.last)[None]])


def _trace_lines(
    rule: str,
    design: _Design,
    own: float,
    epochs: tuple[float, ...],
    means: np.ndarray,
    sds: np.ndarray,
) -> list[Line]:
    """A pair of lines for each panel of traces that shows this fit."""
    natural = rule in ("natural", "aligned_natural")
    panels = [f"trace {design.scale:g}"] if design.scale in (1.0, 0.1, 0.01) else []
    if natural:
        panels = []
    if design.scale == 1.0 and (natural or rule in ("vanilla", "aligned")):
        panels.append("natural")
    name = rule if design.clip_norm == own else f"{rule}, C = {design.clip_norm:g}"
    dashed = design.clip_norm != own
    return [
        Line(f"{panel} {what}", name, epochs, values.T, dashed)
        for panel in panels
        for what, values in (("means", means), ("scales", sds))
    ]


def _run_lengths(
    rule: str, lengths: tuple[float, ...], options: Options, prepared: Prepared
) -> list[Line]:
    """Fig. 2: errors at the end of fits of other lengths, each with the whole budget."""
    own = CLIP_NORMS[rule][0]
    designs = [_Design(own, 1.0, options.epsilons[0], length) for length in lengths]
    _, starts, traces = _fit(rule, designs, options, prepared, 2 * options.epochs)
    found = [
        _errors(np.stack([trace.last for trace in repeats]), starts, 1.0, prepared.optimum)
        for repeats in traces
    ]
    epochs = tuple(length * options.epochs for length in lengths)
    means, sds = (np.stack(part) for part in zip(*found, strict=True))
    return [Line("length means", rule, epochs, means), Line("length scales", rule, epochs, sds)]


def _run_downstream(rule: str, options: Options, prepared: Prepared) -> list[Line]:
    """Fig. 3: error of what is found in synthetic tables, from the last iterate and averaged."""
    own = CLIP_NORMS[rule][0]
    designs = [_Design(own, 1.0, epsilon, _SHARED_LENGTH) for epsilon in options.epsilons]
    block = round(_SHARED_LENGTH * options.epochs)
    target, _, traces = _fit(rule, designs, options, prepared, block)
    # One for all: it compiles when it first draws.
    generator = Generator(target, prepared.table.view())
    last = [[_found(generator, trace.last, options, prepared) for trace in each] for each in traces]
    averaged = [
        [_found(generator, average(trace, _SLOPE).mean, options, prepared) for trace in each]
        for each in traces
    ]
    return [
        Line("downstream", "last iterate", options.epsilons, np.array(last)),
        Line("downstream", "averaged", options.epsilons, np.array(averaged)),
    ]


def _found(
    generator: Generator, parameters: np.ndarray, options: Options, prepared: Prepared
) -> float:
    """RMSE of the coefficients pooled over synthetic tables from the guide at these parameters."""
    if not np.isfinite(parameters).all():
        return np.nan
    copies = max(2, options.draws // _DRAWS_A_COPY)
    rng = np.random.default_rng([options.seed, 3])
    means, free = np.split(np.tile(np.asarray(parameters, float), (copies, 1)), 2, axis=1)
    thetas = DiagonalGuide(generator.target.dim).draw(means, free, rng)
    table = prepared.table
    rows = len(table.codes[table.target])
    return downstream_rmse(generator, thetas, rows, prepared.coefficients, seed=options.seed)
