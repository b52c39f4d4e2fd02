"""What a check found: a bought table beside what the model expects, and how rare that is."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.checks import files
from noisewise.mechanism import Certificate

_ARRAYS = ("predicted", "counts", "deviations", "covariance")
UNLIKELY = 0.01
"""P-values below this are called a contradiction in words."""
KINDS = {
    "calibration": "residuals by what is predicted",
    "groups": "residuals by group",
    "residuals": "histogram of residuals' probabilities",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCheck:
    """A table of people against what a fitted model says of them, both public.

    The rows of the table are bins of predictions (``"calibration"``) or groups of people
    (``"groups"``), with the sum of their residuals; or bins of the probability that the model gives
    to less than what was observed (``"residuals"``), with a number of people each. A residual is
    the probability of less than what was observed minus that of more, from -1 to 1: of a yes or no,
    what happened minus its probability.
    """

    kind: str
    model: str
    outcome: str
    """The column that the model explains."""
    by: tuple[str, ...]
    """Columns that make the groups."""
    labels: tuple[str, ...]
    """Of the table's rows."""
    predicted: np.ndarray
    """What the model predicts in each row on average, for simulated people; of a histogram the
    middles of its bins."""
    counts: np.ndarray
    """People in each row, with noise."""
    count_noise: float
    """Its sd."""
    deviations: np.ndarray
    """Sums of residuals, or numbers of people above an equal share, with noise."""
    deviation_noise: float
    """Sd of the privacy noise in them."""
    covariance: np.ndarray
    """Of the deviations if the model is right: people's outcomes, posterior and privacy noise."""
    statistic: float
    """Chi-square of the deviations under that covariance."""
    degrees: int
    p_value: float
    """How often a table is as far from what the model expects if the model is right."""
    binary: bool
    """Whether the outcome is a yes or no, so that residuals are differences of shares."""
    privacy: Certificate
    notes: tuple[str, ...] = field(default=())

    @property
    def sd(self) -> np.ndarray:
        """Of every deviation if the model is right."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def z(self) -> np.ndarray:
        """Deviations in such sds."""
        return np.divide(self.deviations, self.sd, out=np.zeros_like(self.sd), where=self.sd > 0)

    @property
    def per_person(self) -> np.ndarray:
        """Deviations over the number of people: mean residuals, or relative excesses of bins; not a
        number where noise hides whether there is anybody."""
        if self.kind == "residuals":
            share = max(float(self.counts.sum()), 1.0) / len(self.counts)
            return self.deviations / share
        return self.deviations / self._people

    @property
    def per_person_sd(self) -> np.ndarray:
        """Of `per_person`, if the model is right."""
        if self.kind == "residuals":
            return self.sd / (max(float(self.counts.sum()), 1.0) / len(self.counts))
        return self.sd / self._people

    @property
    def _people(self) -> np.ndarray:
        return np.where(self.counts > 2 * self.count_noise, self.counts, np.nan)

    @property
    def holds(self) -> bool:
        """Whether the table is one that the model could have made."""
        return self.p_value >= UNLIKELY

    @property
    def words(self) -> str:
        """What was found, in a sentence or two."""
        chance = f"p = {self.p_value:.2g}" if self.p_value >= 1e-3 else "p < 0.001"
        if self.holds:
            return (
                f"The {self._what} are as the model {self.model} expects ({chance}): nothing "
                "contradicts it that could be seen through the noise."
            )
        place = int(np.argmax(np.abs(self.z)))
        more = "more" if self.deviations[place] > 0 else "fewer"
        if self.kind == "residuals":
            what = f"{more} outcomes than expected fall {self.labels[place]} of their distribution"
        elif self.binary:
            what = f"where {self._where(place)}, {more} have {self.outcome} than predicted"
        else:
            higher = "higher" if self.deviations[place] > 0 else "lower"
            what = f"where {self._where(place)}, {self.outcome} is {higher} than predicted"
        return (
            f"The {self._what} contradict the model {self.model} ({chance}): most of all, {what} "
            f"({self.z[place]:+.1f} sds)."
        )

    def _where(self, place: int) -> str:
        about = "the prediction is " if self.kind == "calibration" else ""
        return about + self.labels[place]

    @property
    def _what(self) -> str:
        return {
            "calibration": "predictions",
            "groups": f"outcomes by {' and '.join(self.by)}",
            "residuals": "residuals",
        }[self.kind]

    def frame(self) -> Any:
        """The table as a pandas frame."""
        import pandas

        return pandas.DataFrame(
            {
                "predicted": self.predicted,
                "people": self.counts,
                "residual": self.per_person,
                "sd if the model is right": self.per_person_sd,
                "z": self.z,
            },
            index=pandas.Index(self.labels, name=self.kind),
        )

    def save(self, path: str | Path) -> Path:
        """Write everything into one JSON file, whole or not at all.

        Args:
            path: Of the file; one that is there is replaced.
        """
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain |= {name: plain[name].tolist() for name in _ARRAYS}
        return files.write(Path(path), "check", plain | {"privacy": self.privacy.to_dict()})

    @classmethod
    def load(cls, path: str | Path) -> ModelCheck:
        """Read back what `save` wrote; a damaged or foreign file is refused in one line.

        Args:
            path: Of the file.
        """
        with files.reading(Path(path), "check") as plain:
            plain |= {name: np.array(plain[name], float) for name in _ARRAYS}
            plain |= {name: tuple(plain[name]) for name in ("by", "labels", "notes")}
            plain["privacy"] = Certificate.from_dict(plain["privacy"])
            found = cls(**plain)
            rows = len(found.labels)
            shapes = [np.shape(plain[name]) for name in _ARRAYS]
            if shapes != [(rows,)] * 3 + [(rows, rows)] or found.kind not in KINDS:
                raise ValueError("its arrays do not fit its labels")
            return found

    def __repr__(self) -> str:
        return f"ModelCheck({self.kind}, p_value={self.p_value:.3g})\n{self.words}"
