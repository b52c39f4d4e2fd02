"""Differentially private Bayesian inference that knows its own noise.

>>> import noisewise as nw
>>> nw.Budget(epsilon=1.0, delta=1e-6)
Budget(epsilon=1.0, delta=1e-06, adjacency='add-remove')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisewise._validate import NoisewiseError
    from noisewise.data import Column, PublicSample, Schema, Table
    from noisewise.dpvi import Settings
    from noisewise.fitting import fit
    from noisewise.mechanism import Budget, Certificate
    from noisewise.planning import Plan, plan
    from noisewise.posterior import Status
    from noisewise.result import Result
    from noisewise.synthetic import Combined, SyntheticTables, combine, synthesize
    from noisewise.validation import Coverage, coverage

__version__ = "0.1.0"

_HOMES = {
    "Budget": "mechanism.budget",
    "Certificate": "mechanism.certificate",
    "Column": "data",
    "Combined": "synthetic.combining",
    "Coverage": "validation.result",
    "NoisewiseError": "_validate",
    "Plan": "planning.plan",
    "PublicSample": "data",
    "Result": "result",
    "Schema": "data",
    "Settings": "dpvi.settings",
    "Status": "posterior.status",
    "SyntheticTables": "synthetic.tables",
    "Table": "data",
    "combine": "synthetic.combining",
    "coverage": "validation.runner",
    "fit": "fitting",
    "plan": "planning.plan",
    "synthesize": "synthetic.making",
}

__all__ = [
    "Budget",
    "Certificate",
    "Column",
    "Combined",
    "Coverage",
    "NoisewiseError",
    "Plan",
    "PublicSample",
    "Result",
    "Schema",
    "Settings",
    "Status",
    "SyntheticTables",
    "Table",
    "combine",
    "coverage",
    "fit",
    "plan",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import noisewise` itself stays instant."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"noisewise.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'noisewise' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
