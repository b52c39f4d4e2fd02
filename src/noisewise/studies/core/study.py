"""What a study is: a config, cut into parts that run side by side, and a result with its files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from noisewise._validate import NoisewiseError

Printed = tuple[float, float]
"""A mean and the sd printed with it."""


@dataclass(frozen=True)
class Column:
    """A budget, and the model that is fitted with it where a study has several."""

    epsilon: float
    model: str = ""
    """As the paper's folder of the studies knows it."""
    name: str = ""
    """As people read it."""
    coordinates: tuple[str, ...] = ()
    """Those that z-scores and errors are given for."""
    paper: dict[str, Printed] = field(default_factory=dict)
    """What the paper printed, by method."""

    @property
    def heading(self) -> str:
        """Over a table's column and a figure's panel."""
        return f"{self.name}, ε = {self.epsilon:g}"


class Options(NamedTuple):
    """What a run was requested to do; it goes to every process."""

    methods: tuple[str, ...]
    """Gradient rules, where those are compared."""
    columns: tuple[Column, ...]
    fits: int
    """Simulated data sets of a column, or repeats of every fit."""
    epochs: int = 0
    """Length of a comparison's fits; a table has its own."""
    draws: int = 1000
    seed: int = 1
    folder: Path | None = None

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Those of the columns."""
        return tuple(column.epsilon for column in self.columns)

    def named(self, *names: str) -> dict[str, Any]:
        """Some of them by name, for files."""
        return {name: getattr(self, name) for name in names}


class Part(NamedTuple):
    """One process's share of the work: a method, and a variant where a study has several."""

    method: str
    variant: str = ""

    @property
    def label(self) -> str:
        """As files and times are called."""
        return f"{self.method}-{self.variant}" if self.variant else self.method

    @property
    def group(self) -> str:
        """As the user names it: pieces of one variant differ behind an underscore."""
        return self.variant.split("_")[0]


class Outcome(NamedTuple):
    """What a part found, and where and in how much time."""

    found: Any
    seconds: float
    device: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Measure:
    """One cell of a table: how far a method is from being right, over many fits."""

    rmse: float
    """The paper's own measure."""
    rmse_sd: float
    """Over repetitions."""
    floor: float
    """What a method that is right would have."""
    fits: int
    failed: int
    unsettled: int
    """Fits whose own status said that they had not converged."""
    curve: np.ndarray
    curve_sd: np.ndarray
    """What the error is of, at every level: mean and sd over repetitions."""

    def details(self) -> dict[str, str]:
        """What the paper's measure hides, by heading."""
        return {"failed": str(self.failed), "not settled": str(self.unsettled)}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }


def part_per_method(options: Options) -> list[Part]:
    """One part for each method."""
    return [Part(method) for method in options.methods]


def no_preparation(options: Options) -> None:
    """For studies whose parts need nothing in common."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table (or figure) of the NA-DPVI, the DPVIm or the DP-SEP paper."""

    name: str
    title: str
    columns: tuple[Column, ...]
    fits: int
    """The paper's number of fits a column."""
    methods: tuple[str, ...] = ()
    """Those that are run unless others are named; gradient rules, where those are compared."""
    more_methods: tuple[str, ...] = ()
    """Those that are run when they are named, because they are slow or for comparison."""
    epochs: int | None = None
    """A comparison's length of a fit, the paper's where it has one: each epoch draws every record
    once on average. None: the study has neither epochs nor parts that can be chosen."""
    run: Callable[[Part, Options, Any], Any]
    """One part, of what was prepared. This and the next two are top-level functions, so that
    processes can be sent them."""
    prepare: Callable[[Options], Any] = no_preparation
    """Once, before the parts: the table, the reference optimum, noise multipliers."""
    parts: Callable[[Options], list[Part]] = part_per_method
    """What runs side by side."""
    needs_data: str | None = None
    """What ``--data`` must name, where the study cannot do without."""
    least_fits: int = 2
    """Fewest fits that say something: one where a run may be a single split."""

    def at(self, epsilons: tuple[float, ...]) -> Self:
        """The same study at other budgets; the paper's figures stay where they apply."""
        if not epsilons:
            return self
        models = {column.model: column for column in self.columns}
        known = {(column.model, column.epsilon): column for column in self.columns}
        columns = tuple(
            known.get((name, epsilon), replace(model, epsilon=epsilon, paper={}))
            for name, model in models.items()
            for epsilon in epsilons
        )
        return replace(self, columns=columns)

    def with_methods(self, methods: tuple[str, ...]) -> Self:
        """The same study with these methods only."""
        known = (*self.methods, *self.more_methods)
        for name in methods:
            if name not in known:
                raise NoisewiseError(
                    f"study {self.name} has no method '{name}': choose from {', '.join(known)}"
                )
        return replace(self, methods=methods or self.methods)

    def result(
        self, options: Options, outcomes: dict[Part, Outcome], about: dict[str, Any]
    ) -> StudyResult:
        """Everything that was found put together; ``about`` says how the run went."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class StudyResult(ABC):
    """What a study found: plain data, a text and a figure."""

    study: Study
    about: dict[str, Any]
    """Settings and times of the run."""

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """What was found, as plain data."""

    @abstractmethod
    def sections(self) -> list[str]:
        """Tables and sentences, in Markdown."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        about = {"study": self.study.name, "title": self.study.title, "about": self.about}
        return {**about, **self.figures()}

    def to_markdown(self) -> str:
        """The title and all sections."""
        return "\n\n".join([f"### {self.study.title}", *self.sections()])

    @abstractmethod
    def draw(self, path: Path) -> None:
        """The figure."""

    def save(self, folder: Path) -> list[Path]:
        """``NAME.json``, ``NAME.md``, ``NAME.png`` and a study's own figures in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        data, text, picture = (folder / f"{self.study.name}.{end}" for end in ("json", "md", "png"))
        data.write_text(json.dumps(self.to_dict(), indent=1) + "\n")
        text.write_text(self.to_markdown() + "\n")
        self.draw(picture)
        return [data, text, picture]
