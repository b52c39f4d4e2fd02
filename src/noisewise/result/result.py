"""What a fit returns: posterior, certificate, status; and never a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise._pages import Shown, call, view, write_page_about
from noisewise._validate import NoisewiseError, fraction, shown
from noisewise.covariates.marginals import COUNTS
from noisewise.covariates.pairs import PAIRS
from noisewise.data import Table, in_own_terms
from noisewise.mechanism import Budget, Certificate, Verification, verify_run
from noisewise.posterior import Status
from noisewise.posterior.variability import WHAT as PRODUCTS
from noisewise.result import signature as signing
from noisewise.result import storage
from noisewise.result.new_records import predict
from noisewise.result.ratios import Effect, effects, refuse_without_ratios
from noisewise.result.request import Request
from noisewise.result.survival import curves

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

_CHAINS = 4
_MOST_SHOWN = 10
_BEHIND = {
    "covariates": COUNTS,
    "rows of a unit": COUNTS,
    "pairs of covariates": PAIRS,
    "survey weights": PRODUCTS,
}
"""Releases behind what a certificate of DPVI says was bought."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(Shown):
    """A private posterior with the account of its privacy.

    Everything in here is either public or computed from released values alone, so all of it may be
    published under the certificate (unless `privacy` says that it is not private).
    """

    draws: dict[str, np.ndarray]
    """Noise-aware posterior draws by latent, in its own space; the first axis is the draws'."""
    noise_unaware: dict[str, np.ndarray]
    """Draws of plain DPVI or DP-SEP, whose error bars ignore the noise: to compare only."""
    privacy: Certificate
    status: Status
    request: Request
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    """Block means of the iterates (``means``) and the blocks' end steps (``ends``); where a
    posterior averages tails, their ``tail_blocks``, ``tail_slope``, ``tail_r_hat`` and whether
    they are ``tail_converged``, by variational parameter; of a mixture, the
    stationarity statistics of the regression (``stationarity_regression``) and of the components
    (``stationarity_components``), and the most that noise makes of them."""
    burn_in: int = 0
    """Blocks dropped before the posterior was computed."""
    coordinates: dict[str, list[str]] = field(default_factory=dict)
    """Names along a latent's last axis, such as feature names."""
    notes: tuple[str, ...] = ()
    """What was found that contradicts what was declared, a sentence each."""
    nuisance: tuple[str, ...] = ()
    """Latents that say nothing one by one, such as a network's weights: summaries leave them out,
    `draws` and `posterior` have them."""
    signature: signing.Signature | None = None
    """By `sign`: who vouches for all of this."""

    @cached_property
    def posterior(self) -> xarray.DataTree:
        """The draws as ArviZ reads them: chain x draw x shape, in group ``posterior``."""
        return _tree(self.draws, self.coordinates)

    def summary(
        self, level: float = 0.95, *, noise_unaware: bool = False, per_unit: bool = False
    ) -> pandas.DataFrame:
        """Mean, sd and central interval per scalar parameter; the index's name says in what units.

        Args:
            level: Probability of the intervals.
            noise_unaware: Summarise the posterior that ignores the noise, for comparison.
            per_unit: A regression's coefficients per original unit, as R and statsmodels have them,
                in place of those of the encoded features.
        """
        import pandas

        fraction("level", level)
        rows = {}
        draws = self.reported(self.noise_unaware if noise_unaware else self.draws)
        if per_unit:
            if self.own_terms is None:
                other = (
                    "; ratios() has changes in the features' own units" if self.effects() else ""
                )
                raise NoisewiseError(
                    f"the model {self.request.model} has no coefficients per unit: leave out "
                    f"per_unit{other}"
                )
            own = np.asarray(draws["coefficients"], float) @ self.own_terms.T
            draws = draws | {"coefficients": own}
        for name, values in draws.items():
            for label, column in _scalars(name, values, self.coordinates.get(name)):
                low, high = np.quantile(column, [(1 - level) / 2, (1 + level) / 2])
                rows[f"{name}[{label}]" if label in rows else label] = {
                    "mean": column.mean(),
                    "sd": column.std(),
                    "lower": low,
                    "upper": high,
                }
        units = "per unit" if per_unit else "encoded" if self._encoded else ""
        label = f"parameter ({units})" if units else "parameter"
        return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(index=label)

    @property
    def _encoded(self) -> bool:
        """Whether some feature was moved or scaled on its way into the model."""
        encoding = [column for column in self.request.encoding if "group" not in column]
        change = in_own_terms(encoding) if self.request.network is None else np.eye(0)
        return change is None or not np.array_equal(change, np.eye(len(change)))

    @cached_property
    def own_terms(self) -> np.ndarray | None:
        """The matrix that takes encoded coefficients to those per original unit; None where there
        is no such thing."""
        names = self.coordinates.get("coefficients")
        encoding = [column for column in self.request.encoding if "group" not in column]
        draws = self.draws.get("coefficients")
        if draws is None or draws.ndim != 2 or names != [column["name"] for column in encoding]:
            return None
        return in_own_terms(encoding)

    def effects(self) -> list[Effect]:
        """What a change of each feature multiplies, the others held equal: the odds, the rate, the
        hazard, by draws of the factor; none where the model has no such reading."""
        return effects(self.request, self.draws, self.coordinates)

    def ratios(self, level: float = 0.95) -> pandas.DataFrame:
        """Odds ratios, rate ratios, hazard ratios, by changes in the features' own units: what is
        multiplied, the factor's median and its central interval.

        Of a category, a change is another level instead of the reference; of a number, ``+10`` is
        the largest power of ten below some two declared sds, or half the range.

        Args:
            level: Probability of the intervals.

        Raises:
            NoisewiseError: The model's coefficients are no logarithms of ratios.
        """
        import pandas

        fraction("level", level)
        ends = [0.5, (1 - level) / 2, (1 + level) / 2]
        found = self.effects()
        if not found:
            refuse_without_ratios(self.request, self.draws, self.coordinates)
        rows = [
            (one.label, one.ratio.name, one.ratio.of, *np.quantile(one.draws, ends))
            for one in found
        ]
        names = ["change", "kind", "of", "ratio", "lower", "upper"]
        return pandas.DataFrame(rows, columns=names).set_index("change")

    def reported(self, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Those of the latents that are not `nuisance`.

        Args:
            draws: By latent.
        """
        return {name: values for name, values in draws.items() if name not in self.nuisance}

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page about the fit; returns its path.

        Args:
            path: Of the page.
        """
        return write_page_about(self, path)

    def check(self, table: Table, *, budget: Budget, **options: Any) -> Any:
        """`noisewise.check` of this result: a noisy table of the people that were fitted, beside
        what the model says of them; a `noisewise.ModelCheck`.

        Args:
            table: The rows that were fitted.
            budget: What the check may spend, on top of what the fit has spent.
            options: As of `noisewise.check`.
        """
        return call("check", self, table, budget=budget, **options)

    def plot(self) -> Figure:
        """Intervals of all parameters, with and without the privacy noise, as a figure."""
        found: Figure = view("plot", self)
        return found

    def predict(
        self,
        data: Any,
        *,
        model: Callable[..., Any] | str | None = None,
        kind: str = "mean",
        level: float = 0.95,
        seed: int = 0,
        clamp: bool = False,
    ) -> pandas.DataFrame:
        """What the fit expects of new records: a mean and an interval for each.

        Of an outcome with three and more levels, that for every level's probability. Intervals
        include the privacy noise, as all of the posterior does.

        Args:
            data: A frame, a dictionary or a file (.csv, .csv.gz, .parquet) with the fit's
                features, as the schema declares them; other columns are ignored.
            model: The model that was fitted, where it is a function.
            kind: ``"mean"`` for expected outcomes or probabilities, ``"outcome"`` for where a
                new record's outcome itself would lie.
            level: Probability of the intervals.
            seed: Of simulated outcomes.
            clamp: Move values outside the declared bounds to the nearer bound, instead of refusing
                them.
        """
        return predict(self, data, model=model, kind=kind, level=level, seed=seed, clamp=clamp)

    def survival(
        self, people: Any = None, times: Sequence[float] | None = None, level: float = 0.95
    ) -> pandas.DataFrame:
        """Chances to be still without the event, by time, for people with these covariates.

        Of a survival model. Bands include the privacy noise, as all of the posterior does.

        Args:
            people: A frame or a dictionary of features in their own units, as in
                ``{"age": [50, 70]}``. Features that are left out are typical: the declared mean,
                the middle of the bounds, 0, the reference level. None is one typical person.
            times: When to look, within the time's declared bounds; None is evenly, up to the end.
            level: Probability of the bands.
        """
        import pandas

        fraction("level", level)
        found = curves(self.request, self.draws, self.coordinates, people, times)
        low, high = np.quantile(found.draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
        index = pandas.MultiIndex.from_product([found.people, found.times], names=["who", "time"])
        columns = {"survival": found.draws.mean(1), "lower": low, "upper": high}
        return pandas.DataFrame({k: v.ravel() for k, v in columns.items()}, index=index)

    def verify(self) -> Verification:
        """Recompute epsilon from the certificate's releases, and hold them against what was fitted:
        its settings, the number of rows, which was declared or has to be paid for, and what else it
        says was bought."""
        request = self.request
        return verify_run(
            self.privacy,
            steps=request.settings.steps,
            sampling_rate=request.settings.sampling_rate,
            declared_rows=request.schema.public_count,
            protects=request.schema.protected,
            bought=_BEHIND if request.method == "dpvi" else None,
        )

    @property
    def digest(self) -> str:
        """SHA-256 of everything in the result, the signature aside: what a signature is of."""
        return storage.digest(self._stored().files)

    def sign(self, key: Any) -> Result:
        """The result with a signature, which `save` keeps (needs ``noisewise[sign]``).

        Args:
            key: The file of an Ed25519 private key (``noisewise keys`` makes one), or such a key.
        """
        return replace(self, signature=signing.sign(self.digest, key))

    def signed_by(self, key: Any) -> bool:
        """Whether the owner of a key signed this very result.

        Args:
            key: The file of an Ed25519 public key, got from somewhere that you trust, or such a
                key.
        """
        found = self.signature
        return found is not None and found.digest == self.digest and signing.holds(found, key)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the result into a new folder, whole or not at all.

        Args:
            folder: A new one.
            overwrite: Replace a result that lies there.
        """
        return storage.save(self._stored(), Path(folder), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read back what `save` wrote; refuses a corrupt or foreign folder.

        Args:
            folder: What `save` wrote.
        """
        with storage.reading(Path(folder)) as found:
            plain = found.plain
            back = cls(
                privacy=Certificate.from_dict(plain["privacy"]),
                status=Status(plain["status"]),
                request=Request.from_dict(plain["request"]),
                burn_in=int(plain["burn_in"]),
                coordinates=dict(plain["coordinates"]),
                nuisance=tuple(plain["nuisance"]),
                notes=tuple(plain["notes"]),
                **found.arrays,
                signature=found.signature,
            )
            back._check()
            return back

    def _check(self) -> None:
        """Refuse arrays that cannot be a posterior, however whole their file is."""
        every = [*self.draws.values(), *self.noise_unaware.values()]
        if not self.draws or len({np.shape(values)[:1] for values in every}) != 1:
            raise NoisewiseError("its draws are missing, or not equally many of every latent")
        failed = self.status is Status.DIVERGED
        for name, values in self.draws.items():
            if values.dtype.kind != "f" or not (failed or np.isfinite(values).all()):
                raise NoisewiseError(f"the draws of {shown(name)} are not all numbers")
        words = (*self.notes, *self.nuisance, *chain(*self.coordinates.values()))
        if not all(isinstance(word, str) for word in words):
            raise NoisewiseError("its notes or names are not text")
        for name, labels in self.coordinates.items():
            if name not in self.draws or self.draws[name].shape[-1:] != (len(labels),):
                raise NoisewiseError(f"the names along {shown(name)} are not as many as it has")

    def _stored(self) -> storage.Stored:
        return storage.Stored(
            plain={
                "status": self.status.value,
                "privacy": self.privacy.to_dict(),
                "request": self.request.to_dict(),
                "burn_in": self.burn_in,
                "coordinates": self.coordinates,
                "nuisance": list(self.nuisance),
                "notes": list(self.notes),
            },
            arrays={group: getattr(self, group) for group in storage.GROUPS},
            signature=self.signature,
        )

    def __repr__(self) -> str:
        target = "" if self.request.target is None else f" of {self.request.target}"
        budget, rows = self.privacy.budget, self.summary()
        lines = [
            f"Result of {self.request.model}{target}, status {self.status.value}",
            f"epsilon {self.privacy.epsilon_spent:.4g} of {budget.epsilon:g} at delta "
            f"{budget.delta:g}, {budget.adjacency} adjacency",
            rows.head(_MOST_SHOWN).to_string(float_format=lambda value: f"{value:.4g}"),
        ]
        if not self.privacy.private:
            lines.insert(0, "NOT PRIVATE: " + "; ".join(self.privacy.not_private_because))
        lines += [f"Note: {note}" for note in self.notes]
        more = f"{len(rows) - _MOST_SHOWN} more in .summary(); " if len(rows) > _MOST_SHOWN else ""
        return "\n".join([*lines, f"{more}.privacy lists what was released"])


def _scalars(
    name: str, values: np.ndarray, names: list[str] | None
) -> list[tuple[str, np.ndarray]]:
    """(label, draws) of every entry of a latent."""
    flat = values.reshape(len(values), -1)
    if values.ndim == 1:
        return [(name, flat[:, 0])]
    if names is not None and values.ndim == 2:
        return [(label, flat[:, i]) for i, label in enumerate(names)]
    places = list(np.ndindex(values.shape[1:]))
    return [(f"{name}[{','.join(map(str, p))}]", flat[:, i]) for i, p in enumerate(places)]


def _tree(draws: dict[str, np.ndarray], coordinates: dict[str, list[str]]) -> xarray.DataTree:
    import arviz_base

    shaped = {}
    for name, values in draws.items():
        kept = values[: len(values) // _CHAINS * _CHAINS]
        shaped[name] = kept.reshape(_CHAINS, -1, *values.shape[1:])
    dims = {name: [f"{name}_dim"] for name in coordinates}
    coords = {f"{name}_dim": names for name, names in coordinates.items()}
    return arviz_base.from_dict({"posterior": shaped}, dims=dims, coords=coords)
