"""Differentially private Bayesian inference that knows its own noise.

>>> import noisewise as nw
>>> nw.Budget(epsilon=1.0, delta=1e-6)
Budget(epsilon=1.0, delta=1e-06, adjacency='add-remove')
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from noisewise._pages import register_calls, register_pages, register_views

if TYPE_CHECKING:
    from noisewise._hosts import join_hosts
    from noisewise._programs import keep_programs
    from noisewise._validate import NoisewiseError
    from noisewise.audit import Audit, audit
    from noisewise.checks import Comparison, ModelCheck, check, compare
    from noisewise.coverage import Coverage, coverage
    from noisewise.data import Column, PublicSample, Schema, Table, Unit
    from noisewise.dpvi import Settings
    from noisewise.fitting import fit
    from noisewise.mechanism import Budget, Certificate, Ledger
    from noisewise.planning import Plan, plan
    from noisewise.posterior import Status
    from noisewise.result import Result
    from noisewise.synthetic import Combined, SyntheticTables, combine, synthesize

__version__ = "0.1.0"


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"noisewise.{module}"), name)


_HOMES = {
    "Audit": "audit.result",
    "Budget": "mechanism.budget",
    "Certificate": "mechanism.certificate",
    "Column": "data",
    "Combined": "synthetic.combining",
    "Comparison": "checks.comparison",
    "Coverage": "coverage.result",
    "Ledger": "mechanism.ledger",
    "ModelCheck": "checks.model_check",
    "NoisewiseError": "_validate",
    "Plan": "planning.plan",
    "PublicSample": "data",
    "Result": "result.result",
    "Schema": "data",
    "Settings": "dpvi.settings",
    "Status": "posterior.status",
    "SyntheticTables": "synthetic.tables",
    "Table": "data",
    "Unit": "data",
    "audit": "audit.runner",
    "check": "checks.check",
    "combine": "synthetic.combining",
    "compare": "checks.compare",
    "coverage": "coverage.runner",
    "fit": "fitting.fit",
    "join_hosts": "_hosts",
    "keep_programs": "_programs",
    "plan": "planning.plan",
    "synthesize": "synthetic.making",
}

__all__ = [
    "Audit",
    "Budget",
    "Certificate",
    "Column",
    "Combined",
    "Comparison",
    "Coverage",
    "Ledger",
    "ModelCheck",
    "NoisewiseError",
    "Plan",
    "PublicSample",
    "Result",
    "Schema",
    "Settings",
    "Status",
    "SyntheticTables",
    "Table",
    "Unit",
    "audit",
    "check",
    "combine",
    "compare",
    "coverage",
    "fit",
    "join_hosts",
    "keep_programs",
    "plan",
    "synthesize",
]


_PAGES = {
    "Audit": ("report.audit_page", "write_audit_page"),
    "Coverage": ("report.coverage_page", "write_coverage_page"),
    "Ledger": ("report.ledger_page", "write_ledger_page"),
    "Plan": ("report.plan_page", "write_plan_page"),
    "Result": ("report.page", "write_report"),
    "SyntheticTables": ("report.fidelity_page", "write_fidelity_page"),
}
_VIEWS = {
    "Certificate": ("report.notebook", "show_certificate"),
    "Coverage": ("report.notebook", "show_coverage"),
    "Plan": ("report.notebook", "show_plan"),
    "Result": ("report.notebook", "show_result"),
    "Schema": ("report.notebook", "show_schema"),
    "plot": ("report.notebook", "plot_result"),
}
_CALLS = {"check": ("checks.check", "check")}
register_calls({name: partial(_load, *place) for name, place in _CALLS.items()})
register_pages({subject: partial(_load, *place) for subject, place in _PAGES.items()})
register_views({subject: partial(_load, *place) for subject, place in _VIEWS.items()})


class _Package(ModuleType):
    """Importing a house would hide a public name that it shares (`coverage`): names come first."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import noisewise` itself stays instant."""
    if name in _HOMES:
        return _load(_HOMES[name], name)
    raise AttributeError(f"module 'noisewise' has no attribute '{name}'")


def __dir__() -> list[str]:
    """What is offered, and nothing that this file needs for itself."""
    return sorted([*__all__, "__doc__", "__version__"])
