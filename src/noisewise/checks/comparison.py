"""What a comparison of two models found: which predicts better, by how much, how surely."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from noisewise.checks import files
from noisewise.mechanism import Certificate

_SURE = 2.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The mean difference of two models' log scores, first minus second, and its error.

    A log score is the logarithm of the probability (or density) that a model's posterior gives to
    what was observed. A difference of 0.01 a row is a factor of 2.7 in the odds between the models
    after a hundred rows.
    """

    first: str
    second: str
    """What was fitted, in words."""
    difference: float
    """A row, for new people: `optimism` is taken off."""
    sampling_sd: float
    """Of the difference, because these people are a sample; rows of one unit count as so many
    people."""
    noise_sd: float
    """Likewise, by the privacy noise of the comparison."""
    optimism: float
    """By how much the first looks better than the second on the people that both were fitted to,
    only because it has more parameters."""
    bound: float
    """Differences of single rows are clipped to this, either way."""
    rows: float
    """Their number, with noise."""
    privacy: Certificate

    @property
    def sd(self) -> float:
        """Of the difference: people's chance and privacy noise together."""
        return (self.sampling_sd**2 + self.noise_sd**2) ** 0.5

    @property
    def words(self) -> str:
        """What was found, in a sentence."""
        size, error = abs(self.difference), f"{self.sd:.2g}"
        if size < _SURE * self.sd:
            return (
                f"No difference that could be seen: {self.first} minus {self.second} is "
                f"{self.difference:.2g} +- {error} per row."
            )
        better, worse = self.first, self.second
        if self.difference < 0:
            better, worse = worse, better
        return f"{better} predicts better than {worse}, by {size:.2g} +- {error} per row."

    def save(self, path: str | Path) -> Path:
        """Write everything into one JSON file, whole or not at all.

        Args:
            path: Of the file; one that is there is replaced.
        """
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return files.write(Path(path), "comparison", plain | {"privacy": self.privacy.to_dict()})

    @classmethod
    def load(cls, path: str | Path) -> Comparison:
        """Read back what `save` wrote; a damaged or foreign file is refused in one line.

        Args:
            path: Of the file.
        """
        with files.reading(Path(path), "comparison") as plain:
            numbers = {
                one.name: float(plain[one.name]) for one in fields(cls) if one.type == "float"
            }
            privacy = Certificate.from_dict(plain["privacy"])
            return cls(**plain | numbers | {"privacy": privacy})

    def __repr__(self) -> str:
        return f"Comparison(difference={self.difference:.3g}, sd={self.sd:.3g})\n{self.words}"
