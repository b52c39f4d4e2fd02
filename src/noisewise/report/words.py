"""Plain sentences: what was promised, how the fit went, what the page does not say."""

import math

import numpy as np

from noisewise.data import Unit
from noisewise.mechanism import Budget, Certificate
from noisewise.models import FAMILIES
from noisewise.posterior import Status
from noisewise.posterior.gradient_sizes import SIZES
from noisewise.result import Result


def headline(result: Result) -> str:
    """The model and the target, as a title."""
    name, target = result.request.model, result.request.target
    mixed = name.startswith("mixed(")
    known = name[len("mixed(") :].rstrip(")").partition(",")[0] if mixed else name
    family = FAMILIES.get(known.partition("(")[0])
    title = f"Model {name}" if family is None else family.title
    if mixed and family is not None:
        title = f"Mixed {title[0].lower()}{title[1:]}"
    if name.startswith("network("):
        title = "Neural network"
    return f"{title} of {target}" if target is not None else title


def lead(result: Result, parameters: int) -> str:
    """Privacy and status, a sentence each."""
    budget = result.privacy.budget
    kinds = {"naive": "A plain", "averaged": "An averaged (DPVIm's)"}
    kind = kinds.get(result.request.posterior, "A noise-aware")
    what = f"{kind} posterior of {_counted(parameters, 'parameter')}"
    if result.privacy.private:
        how = (
            f"{what}, under ({budget.epsilon:g}, {small(budget.delta)})-differential privacy "
            f"with {budget.adjacency} adjacency; it protects {protected_words(result.privacy)}."
        )
    else:
        how = f"{what}, without a privacy guarantee: see the notice."
    if result.status is Status.OK:
        return f"{how} The fit went well: {result.status.words}."
    return f"{how} The fit did not go well: read the notice before using the intervals."


def epsilon_sentence(budget: Budget, unit: str = "record") -> str:
    """What epsilon promises to a record, or to what else is protected as a whole."""
    factor = math.exp(min(budget.epsilon, 700.0))
    sure = 100 / (1 + 1 / factor)
    percent = f"{sure:.0f}%" if sure < 99 else f"{math.floor(sure * 1000) / 1000:g}%"
    guess = (
        f"a given {unit} is in the table"
        if budget.adjacency == "add-remove"
        else f"a given {unit}, rather than a certain other one, is in the table"
    )
    return (
        "No outcome of this fit is more than "
        f"exp({budget.epsilon:g}) = {factor:,.3g} times as likely on one of two neighbouring "
        f"tables as on the other, delta aside. Whoever held it a coin toss whether {guess} can "
        f"become at most {percent} sure."
    )


def delta_sentence(budget: Budget, rows: int | None) -> str:
    """What delta allows, against the number of rows."""
    sentence = (
        "The bound on epsilon may be exceeded by a probability of at most "
        f"1 in {1 / budget.delta:,.0f}"
    )
    if not rows:
        return f"{sentence}; this should be far below one over the number of rows."
    if budget.delta * rows > 0.1:
        return (
            f"{sentence}. That is not well below one over the number of rows (1 in {rows:,}): it "
            "leaves room for somebody's whole record to be given away."
        )
    return f"{sentence}, well below one over the number of rows (1 in {rows:,})."


def adjacency_sentence(budget: Budget, unit: Unit | str | None = None) -> str:
    """Which two tables are neighbours; ``unit`` is whose rows are protected together, as declared
    or its name."""
    if unit:
        return _unit_sentence(budget, unit)
    if budget.adjacency == "replace-one":
        which = "Two tables are neighbours if one row is exchanged for any other; "
        which += "the number of rows counts as public."
    else:
        which = "Two tables are neighbours if one has a single row more than the other."
    return f"{which} A person with several rows is protected row by row, not as a whole."


def _unit_sentence(budget: Budget, unit: Unit | str) -> str:
    """The same where a unit is declared."""
    name = unit if isinstance(unit, str) else unit.column
    rows = "all its rows" if isinstance(unit, str) else f"all its rows, up to {unit.max_rows}"
    if budget.adjacency == "replace-one":
        which = f"one {name}, with {rows}, is exchanged for any other"
        which += f"; the number of {name} units counts as public"
    else:
        which = f"one has a single {name} more than the other, with {rows}"
    return f"Two tables are neighbours if {which}. Every {name} is protected as a whole."


def protected_words(certificate: Certificate) -> str:
    """Whose rows are protected together, for the head of a page."""
    return certificate.protects.partition(":")[0]


def spent_sentence(certificate: Certificate) -> str:
    """Epsilon spent of the budget."""
    spent, budget = certificate.epsilon_spent, certificate.budget.epsilon
    share = 100 * spent / budget
    words = f"Epsilon {spent:.4f} of {budget:g} was spent ({share:.1f}%), at delta "
    words += f"{small(certificate.budget.delta)}."
    if spent > budget * (1 + 1e-6):
        words += " This is more than the budget allows."
    if not certificate.private:
        words += " The account is correct, but the guarantee is void: see the notice at the top."
    return words


def releases_sentence(certificate: Certificate) -> str:
    """What is behind a release whose name does not say it; '' where there is none."""
    if all(release.what != SIZES for release in certificate.releases):
        return ""
    return (
        f"{SIZES.capitalize()}: a histogram of how far records are from what the fitted model "
        "expects of them, bought to see whether the model is wrong."
    )


def burn_in_sentence(result: Result) -> str:
    """Where the burn-in ended."""
    ends = result.trace.get("ends")
    if ends is None or len(ends) == 0:
        return "The result holds no trace."
    steps, blocks = int(ends[-1]), len(ends)
    ran = f"The fit took {steps:,} steps, averaged here over {_counted(blocks, 'block')}."
    if result.request.posterior == "dp-sep":
        share = 100 * result.request.sep_settings.averaged
        return f"The fit took {steps:,} steps; the means of the last {share:.0f}% were averaged."
    if not 0 < result.burn_in < blocks:
        return f"{ran} Nothing was dropped as burn-in."
    end = int(ends[result.burn_in - 1])
    return (
        f"{ran} Burn-in ended at step {end:,}: the {_counted(result.burn_in, 'block')} before it "
        f"were dropped, and the posterior rests on the {steps - end:,} steps after it."
    )


def convergence_sentence(result: Result) -> str:
    """Convergence in words."""
    posterior = result.request.posterior
    if posterior == "dp-sep" and result.status is Status.OK:
        return "Over the part that was averaged, the means stay where they are, up to the noise."
    tests = {k[13:]: v for k, v in result.trace.items() if k.startswith("stationarity_")}
    if tests and result.status is not Status.DIVERGED:
        return _stationarity_sentence(tests, result.status is Status.OK)
    if posterior == "averaged" and result.status is Status.OK:
        return "Every parameter settled: it was averaged over the longest tail without drift."
    return {
        Status.OK: (
            "After burn-in the gradients follow their linear model: block means scatter about it "
            "as the noise says they should."
        ),
        Status.CURVATURE_UNIDENTIFIED: "After burn-in the gradients follow their linear model.",
        Status.MODEL_MISFIT: "After burn-in the gradients follow their linear model.",
        Status.NOT_CONVERGED: _sentence(Status.NOT_CONVERGED.words),
        Status.DIVERGED: _sentence(Status.DIVERGED.words),
    }[result.status]


def _stationarity_sentence(tests: dict[str, np.ndarray], settled: bool) -> str:
    """A mixture's verdict: components have no order, so their own parameters are not judged."""
    found = " and ".join(
        f"{statistic:.2f} for the {name} (at most {limit:.2f})"
        for name, (statistic, limit) in tests.items()
    )
    verdict = "It has settled." if settled else "It has not settled: allow more steps."
    return (
        "Components have no order, so the fit is judged by groups. Where a group has settled, the "
        "mean of its released gradients is what noise makes of it, or less; in squares, it is "
        f"{found}. {verdict}"
    )


def tails_sentence(result: Result) -> str:
    """How DPVIm's two tests of convergence came out, where tails were averaged."""
    settled = result.trace.get("tail_converged")
    if settled is None:
        return ""
    slopes, ratios = result.trace["tail_slope"], result.trace["tail_r_hat"]
    blocks = result.trace["tail_blocks"]
    return (
        f"Of the {len(settled):,} averaged parameters of the guide {int(settled.sum()):,} passed "
        "both tests, a small slope and a split R-hat below 1.1; the largest slope is "
        f"{np.abs(slopes).max():.2g} and the largest R-hat {ratios.max():.3g}. Tails are "
        f"{blocks.min():,} to {blocks.max():,} blocks long."
    )


def curvature_sentence(result: Result) -> str:
    """Whether the curvature, which decides the widths, is known."""
    network = result.request.network
    if network is not None and network.variance_inflation is None:
        return (
            "Simulated targets of this very network could not be fitted in the same way, so what "
            "its weights say together could not be checked: do not rely on the intervals."
        )
    if network is not None:
        return (
            "A network's weights are fitted as if independent, which understates what they say "
            "together: simulated targets of this very network, fitted in the same way, showed a "
            f"squared error of {network.variance_inflation:.3g} times the variance that a fit "
            "reports. The posterior's variance has that factor."
        )
    if result.request.posterior == "dp-sep":
        return (
            "Expectation propagation releases the posterior's precision itself, with noise; "
            "eigenvalues are never read as smaller than the noise allows."
        )
    if result.request.posterior == "averaged":
        return "Averaging infers no curvature: the widths are the guide's own and the tails'."
    return {
        Status.OK: "The curvature is identified: the trace decides it, not its prior.",
        Status.CURVATURE_UNIDENTIFIED: _sentence(Status.CURVATURE_UNIDENTIFIED.words),
        Status.MODEL_MISFIT: _sentence(Status.MODEL_MISFIT.words),
        Status.NOT_CONVERGED: (
            "It was estimated from a trace that had not settled: do not rely on it."
        ),
        Status.DIVERGED: "No curvature could be estimated.",
    }[result.status]


def small(value: float) -> str:
    """A small probability, without padding.

    >>> small(1e-6), small(0.001)
    ('1e-6', '0.001')
    """
    return f"{value:g}".replace("e-0", "e-")


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


POSTERIORS = {
    "analytic": "noise-aware, computed without a Markov chain",
    "exact": "noise-aware, computed exactly (no Markov chain)",
    "nuts": "noise-aware, by Hamiltonian Monte Carlo (NUTS)",
    "averaged": "DPVIm's: converged iterates averaged, their variance added",
    "laplace": "noise-aware, by Laplace's approximation",
    "naive": "plain DPVI, as requested: it ignores the privacy noise",
    "dp-sep": "noise-aware, by DP-SEP: the known noise of its mean added to its covariance",
}

SETTING_MEANINGS = {
    "clip_norm": "the most that one record's gradient may weigh",
    "sampling_rate": "chance of each record to be in a step's batch",
    "steps": "number of noisy gradient steps",
    "rule": "which gradients are released",
    "guide_draws": "Monte Carlo draws per gradient",
    "burn_in": "least share of the run that is dropped",
    "contraction_rate": "share of the distance to the optimum that a step removes, as simulated",
    "initial_step_multiplier": "factor on the first steps' size",
    "step_factor": "the paper's step size, instead of the contraction rate",
    "learning_rate": "the optimiser's, instead of the contraction rate",
    "optimiser": "what moves the parameters, where there is a learning rate",
    "precondition": "factor on the scales' gradients before the clip",
    "guide": "independent coordinates, or a full covariance matrix",
    "scale_step": "share of their steps that the guide's scales make",
    "clip_prior": "whether the prior's gradient is clipped too",
    "full_curvature": "curvature as a matrix, not coordinate by coordinate",
    "curvature_sd": "prior sd of the curvature relative to the simulated one",
    "slope_threshold": "most drift along an averaged tail",
    "paper_priors": "the paper's priors, built from the trace",
    "location": "origin of the whitened frame",
    "curvature": "simulated curvature, which whitens the frame",
    "frame_scale": "factors of the coordinates that are not whitened",
    "prior_precision": "inverse covariance of the model's prior",
    "gaussian_prior": "whether descent is along a Gaussian prior, and the model's comes in after",
    "bounds": "most that a record's gradient, precision and squared residual may weigh",
    "natural_bounds": "the same while natural parameters are released",
    "natural_steps": "first steps that release natural parameters",
    "weights": "how the noise is shared between gradient, precision and residual",
    "mean_rate": "share of its way that the mean moves in a step",
    "precision_rate": "the same for the precision",
    "extra_rate": "the same for the noise's variance",
    "decay_from": "share of the run after which the rates fall",
    "last_rate": "what they fall to",
    "averaged": "share of the last steps whose means are averaged",
    "floor": "least eigenvalue of the precision, in sds of its noise",
    "max_dispersion": "most that noise alone may disperse a parameter's iterates, in prior sds",
    "start": "initial means; none is the frame's origin",
}
