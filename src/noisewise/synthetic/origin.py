"""Where synthetic tables come from, in memory and in the folder that they are saved to."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisewise._files import read_json
from noisewise._validate import NoisewiseError
from noisewise.mechanism import Certificate
from noisewise.posterior import Status

_FILE, _FORMAT, _VERSION = "tables.json", "noisewise-tables", 1
_POSTERIORS = {
    "averaged": (
        "DPVIm's averaged posterior, whose spread is the guide's own and that of the iterates' "
        "tails"
    ),
    "naive": "plain DPVI's posterior, which ignores the privacy noise",
}


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where tables come from: all of it public."""

    privacy: Certificate
    model: str
    rows: int
    """The fit's public number of rows."""
    posterior: str
    """How the posterior was inferred, as the request says; naive is plain DPVI's."""
    sample: str | None = None
    """What public rows the covariates are from, in the certificate's words."""
    status: Status = Status.OK
    """How the fit went."""

    @property
    def noise_unaware(self) -> bool:
        """Whether the posterior ignores the privacy noise."""
        return self.posterior == "naive"

    @property
    def posterior_words(self) -> str:
        """The posterior behind the tables, as pages and files call it."""
        return _POSTERIORS.get(self.posterior, "the noise-aware posterior")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the tables must know first."""
        lines = tuple(f"NOT PRIVATE: {reason}" for reason in self.privacy.not_private_because)
        if self.noise_unaware:
            lines += ("The posterior behind these tables ignores the privacy noise.",)
        return lines + self.caveats

    @property
    def caveats(self) -> tuple[str, ...]:
        """Why error bars from these tables may not hold."""
        lines: tuple[str, ...] = ()
        if self.posterior == "averaged":
            lines += (
                "Averaging takes nothing off for clipping, which is small where the data are like "
                "the model: where counts scatter far more widely, what goes with large ones can "
                "be rarer in these tables than their error bars say.",
            )
        if self.status is not Status.OK:
            lines += (f"The fit did not go well: {self.status.words}.",)
        return lines


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What a folder of tables says of itself."""

    origin: Origin
    format: str
    copies: int
    rows: int
    covariates: list[str]


def write_origin(
    folder: Path, origin: Origin, format: str, copies: int, rows: int, covariates: list[str]
) -> None:
    """``tables.json``, all but the certificate, which is ``privacy.json``."""
    plain = {
        "format": _FORMAT,
        "version": _VERSION,
        "files": format,
        "copies": copies,
        "rows": rows,
        "covariates": covariates,
        "model": origin.model,
        "fitted_rows": origin.rows,
        "posterior": origin.posterior,
        "sample": origin.sample,
        "status": origin.status.value,
    }
    (folder / _FILE).write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")


def read_origin(folder: Path) -> Saved:
    """Back from `write_origin` and the certificate beside it; one line if it cannot be read."""
    plain, certificate = _json(folder, _FILE), _json(folder, "privacy.json")
    if plain.get("format") != _FORMAT or plain.get("version") != _VERSION:
        raise NoisewiseError(
            f"{folder / _FILE} is not of tables that this noisewise wrote (version {_VERSION})"
        )
    try:
        origin = Origin(
            privacy=Certificate.from_dict(certificate),
            model=str(plain["model"]),
            rows=int(plain["fitted_rows"]),
            posterior=str(plain["posterior"]),
            sample=plain["sample"],
            status=Status(plain["status"]),
        )
        return Saved(
            origin=origin,
            format=str(plain["files"]),
            copies=int(plain["copies"]),
            rows=int(plain["rows"]),
            covariates=[str(name) for name in plain["covariates"]],
        )
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise NoisewiseError(f"{folder / _FILE} is damaged: {error}") from error


def _json(folder: Path, name: str) -> dict[str, Any]:
    if not (folder / name).is_file():
        raise NoisewiseError(
            f"{folder} holds no synthetic tables ({name} not readable): name a folder that "
            "`noisewise synthesize` or SyntheticTables.save wrote"
        )
    return read_json(folder / name, "description of tables")
