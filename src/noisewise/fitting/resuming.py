"""A fit's checkpoint: what makes it this fit's, and what it goes on with."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._hosts import Hosts
from noisewise._validate import NoisewiseError
from noisewise.dpvi import Settings
from noisewise.engine import (
    Checkpoint,
    Mirror,
    remove_checkpoint,
    run_leaves,
    said_to_others,
    with_leaves,
)
from noisewise.fitting.method import Job, Prepared
from noisewise.mechanism import Release, Reservation, version_of
from noisewise.models.fingerprint import model_digest
from noisewise.planning import Plan


def request_of(
    job: Job, plan: Plan | Settings | None, ledger: bool, asked: dict[str, Any]
) -> dict[str, Any]:
    """Everything public that decides what a fit releases, by name.

    The table is not among it: a digest of its rows would be computed from them.

    Args:
        job: The fit.
        plan: Its plan or settings.
        ledger: Whether it is written into one.
        asked: What else was requested.
    """
    view = job.bound.view
    return {
        "version of noisewise": version_of("noisewise"),
        "model": [job.bound.name, _digest(job.bound.model)],
        "schema": view.schema.fingerprint(),
        "target": list(view.targets),
        "features": None if view.encoder is None else view.encoder.describe(),
        "budget": asdict(job.budget),
        "plan": None if plan is None else _said(plan),
        "steps": job.steps,
        "covariate_share": job.covariate_share,
        "misfit_share": job.misfit_share,
        "public sample": job.public_sample and job.public_sample.fingerprint(),
        "draws": job.draws,
        "insecure_seed": job.insecure_seed,
        "ledger": ledger,
    } | asked


def open_checkpoint(
    folder: str | Path, hosts: Hosts, request: dict[str, Any], resume: bool
) -> Checkpoint:
    """The checkpoint of this fit, there or to be made; another fit's is refused.

    The first host's: the others are told what it found there.

    Args:
        folder: Where it lies.
        hosts: Who fits together.
        request: What was requested.
        resume: Whether to go on.
    """
    if hosts.is_first:
        found = Checkpoint(folder, request, resume=resume)
        hosts.from_first(said_to_others(found) if hosts.several else b"")
        return found
    return Mirror(folder, request, hosts.from_first(b""))


def begin(job: Job) -> Reservation | None:
    """Write down that the fit begins or goes on and, in the ledger, what it is about to spend."""
    if job.checkpoint is not None:
        job.checkpoint.begin()
    try:
        return _reserve(job)
    except NoisewiseError:
        if job.checkpoint is not None and not job.checkpoint.resumed:
            remove_checkpoint(job.checkpoint.folder)
        raise


def _reserve(job: Job) -> Reservation | None:
    if job.ledger is None:
        return None
    target, checkpoint = job.bound.view.target, job.checkpoint
    return job.ledger.reserve(
        job.budget,
        job.bound.name if target is None else f"{job.bound.name} of {target}",
        schema=job.table.schema.fingerprint(),
        unit="" if job.table.schema.unit is None else job.table.schema.unit.column,
        seeded=job.insecure_seed is not None,
        tokens=() if checkpoint is None else checkpoint.tokens,
        reached=0 if checkpoint is None else checkpoint.reached,
    )


def settle(job: Job, prepared: Prepared) -> Prepared:
    """What was bought and decided is written down; or what was written down before is kept to. All
    hosts run with the numbers of the first, which they may have rounded otherwise."""
    settled = _settled(job, prepared)
    if not job.hosts.several:
        return settled
    said = io.BytesIO()
    np.savez(said, *map(np.asarray, run_leaves(settled.runs)))
    with np.load(io.BytesIO(job.hosts.from_first(said.getvalue())), allow_pickle=False) as heard:
        leaves = [heard[f"arr_{number}"] for number in range(len(heard.files))]
    return replace(settled, runs=with_leaves(settled.runs, leaves))


def _settled(job: Job, prepared: Prepared) -> Prepared:
    if job.checkpoint is None:
        return prepared
    releases = [asdict(release) for release in prepared.releases]
    about = {"settings": prepared.settings.to_dict(), "releases": releases}
    found = job.checkpoint.settle(about, prepared.runs)
    kept = tuple(Release(**release) for release in found.about["releases"])
    return replace(prepared, runs=found.runs, releases=kept)


def _digest(model: Callable[..., Any]) -> str:
    try:
        return model_digest(model)
    except Exception:  # what cannot be pickled is known by its name alone
        return ""


def _said(plan: Plan | Settings) -> str:
    if isinstance(plan, Plan):
        said: list[Any] = [plan.settings.to_dict(), plan.choices]
    else:
        said = [plan.to_dict()]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
