"""From a result to synthetic tables: find the model again, check it, choose posterior draws."""

import secrets
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from noisewise._validate import LARGEST_SEED, NoisewiseError, integer_at_least, listed
from noisewise.data import PublicSample
from noisewise.mechanism import Certificate
from noisewise.models import bind_model
from noisewise.posterior import Status
from noisewise.result import Result, fitted_model, refuse_other_latents
from noisewise.synthetic.generator import Generator
from noisewise.synthetic.origin import Origin
from noisewise.synthetic.tables import SyntheticTables


def synthesize(
    result: Result,
    *,
    copies: int = 100,
    rows: int | None = None,
    model: Callable[..., Any] | str | None = None,
    covariates: PublicSample | None = None,
    noise_unaware: bool = False,
    seed: int | None = None,
) -> SyntheticTables:
    """Synthetic tables from a fit's posterior, at no further privacy cost.

    Each of the ``copies`` is drawn from **one** draw of the result's posterior, so that tables
    differ from each other by as much as it leaves the parameters open; that is what `combine`
    reads the error bars from. The posterior is the noise-aware one where the fit was read by
    ``"exact"``, ``"nuts"`` or ``"laplace"``; where by ``"averaged"``, as of a mixture, it is
    DPVIm's, whose spread is the guide's own and that of the iterates' tails; where by ``"naive"``,
    plain DPVI's.

    Args:
        result: Of a model that generates its records, or whose covariates are given.
        copies: How many tables.
        rows: Of each; by default the fit's public number.
        model: A ready-made one is found again by its name; a function of yours must be passed again
            (or ``"path/to/model.py:function"``).
        covariates: A regression does not generate its covariates: rows of theirs that are public,
            from which whole rows are drawn with replacement.
        noise_unaware: Draw from the posterior that ignores the noise, whose tables are too much
            alike: for comparison only.
        seed: Makes tables repeatable; it needs no secrecy, for everything here is made from what
            was released already.
    """
    if not isinstance(result, Result):
        raise NoisewiseError(
            f"result must be a noisewise.Result, got {type(result).__name__}: "
            "nw.Result.load(folder) reads a saved one"
        )
    integer_at_least("copies", copies, 2)
    fitted = max(result.request.public_count, 1)  # noise may have left none
    size = integer_at_least("rows", fitted if rows is None else rows, 1)
    seed = secrets.randbits(63) if seed is None else integer_at_least("seed", seed, 0, LARGEST_SEED)
    if result.status is Status.DIVERGED:
        raise NoisewiseError(f"cannot synthesize from this result: {result.status.words}")
    generator = _generator(result, model, covariates)
    draws = result.noise_unaware if noise_unaware else result.draws
    refuse_other_latents(generator.target, draws)
    thetas = generator.unconstrained(draws)
    if copies > len(thetas):
        raise NoisewiseError(
            f"copies must be at most the result's {len(thetas)} posterior draws, got {copies}: "
            "each table needs one of its own"
        )
    _warn_of_what_is_wrong(result)
    order = np.random.default_rng(seed).permutation(len(thetas))
    origin = Origin(
        privacy=_with_covariates(result.privacy, generator, covariates),
        model=result.request.model,
        rows=fitted,
        posterior="naive" if noise_unaware else result.request.posterior,
        sample=None if covariates is None else _declared(covariates),
        status=result.status,
    )
    return SyntheticTables(generator, thetas[order], copies, rows=size, seed=seed, origin=origin)


def _with_covariates(
    certificate: Certificate, generator: Generator, sample: PublicSample | None
) -> Certificate:
    """The fit's certificate, with the public rows that the tables' covariates are from."""
    if sample is None:
        return certificate
    names = ", ".join(generator.covariates)
    source = {"covariates of the synthetic tables": f"{names}: {_declared(sample)}"}
    return replace(certificate, sources={**certificate.sources, **source})


def _declared(sample: PublicSample) -> str:
    """The words that a fit's certificate has for a public sample."""
    return f"a sample of {len(sample)} rows, {sample.fingerprint()}, declared public"


def _warn_of_what_is_wrong(result: Result) -> None:
    """Say loudly what the tables inherit."""
    if not result.privacy.private:
        reasons = "; ".join(result.privacy.not_private_because)
        warnings.warn(f"these tables are NOT PRIVATE: {reasons}", stacklevel=3)
    if result.status is not Status.OK:
        warnings.warn(f"in this fit, {result.status.words}", stacklevel=3)


def _generator(
    result: Result, model: Callable[..., Any] | str | None, covariates: PublicSample | None
) -> Generator:
    request = result.request
    found = fitted_model(request, model)
    if covariates is not None and not isinstance(covariates, PublicSample):
        raise NoisewiseError(
            f"covariates must be a noisewise.PublicSample, got {type(covariates).__name__}: "
            "wrap rows that are public in one; a Table's are not"
        )
    bound = bind_model(**request.binding(found), public_sample=covariates)
    generator = Generator(bound.target, bound.view)
    _check_covariates(bound.name, generator)
    return generator


def _check_covariates(name: str, generator: Generator) -> None:
    """Every column that the model does not generate must come from public rows."""
    needed, sample = generator.covariates, generator.view.sample
    if not generator.generated:
        raise NoisewiseError(
            f"model '{name}' generates none of its arguments: hand the columns straight to obs="
        )
    if not needed and sample is not None:
        raise NoisewiseError(f"model '{name}' generates every column itself: drop the covariates")
    missing = [column for column in needed if column not in (sample or {})]
    if missing:
        raise NoisewiseError(
            f"model '{name}' does not generate {listed(missing)}: pass covariates=, "
            'a PublicSample with public rows of them, or fit the model "mixture", which generates '
            "whole records"
        )
