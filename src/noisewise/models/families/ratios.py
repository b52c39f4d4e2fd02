"""What the exponential of a coefficient is, in the words of those who read reports."""

from typing import NamedTuple


class Ratio(NamedTuple):
    """A ratio that a change of a feature makes."""

    name: str
    """As in "odds ratio"."""
    of: str
    """What it multiplies, with ``{target}``, ``{event}``, ``{level}`` and ``{reference}``."""
    meaning: str
    """For a reader who does not know the word."""
    more: str = "higher"
    less: str = "lower"
    times: str = "as high"

    def about(self, **names: str) -> "Ratio":
        """The same of these columns and levels.

        Args:
            **names: What stands in place of the braces.
        """
        return self._replace(of=self.of.format(**names), meaning=self.meaning.format(**names))


ODDS = Ratio(
    "odds ratio",
    "the odds of {target}",
    "Odds are the chance of {target} over the chance of none: a chance of 20% is odds of 1 to 4. "
    "An odds ratio of 1 is no difference, 2 doubles the odds, 0.5 halves them. Where the chance is "
    "below some 10%, it is about the ratio of the chances themselves.",
)
LEVEL_ODDS = Ratio(
    "odds ratio",
    "the odds of {level} against {reference}",
    "Of those whose {target} is one of the two levels, the odds are how many have the one over "
    "how many have the other. An odds ratio of 1 is no difference, 2 doubles the odds, 0.5 halves "
    "them.",
)
CUMULATIVE_ODDS = Ratio(
    "cumulative odds ratio",
    "the odds of a higher {target}",
    "Wherever the levels of {target} are cut in two, the odds are the chance to lie above the cut "
    "over the chance to lie below; the model says that one ratio holds for every cut (proportional "
    "odds). 1 is no difference, 2 doubles the odds of a higher level, 0.5 halves them.",
)
RATE = Ratio(
    "rate ratio",
    "the expected {target}",
    "A rate ratio of 1 is no difference; 2 doubles the expected number, 0.5 halves it.",
)
HAZARD = Ratio(
    "hazard ratio",
    "the hazard of {event}",
    "The hazard is the rate at which the event ({event}) comes to those who have not had it yet, "
    "at a given time; the model says that one ratio holds at all times (proportional hazards). 1 "
    "is no difference, 2 doubles that rate, 0.5 halves it.",
)
TIME = Ratio(
    "time ratio",
    "the time to the event ({event})",
    "The time until a given share of people, such as half of them, have had the event: 1 is no "
    "difference, 2 doubles that time, 0.5 halves it.",
    "longer",
    "shorter",
    "as long",
)
MEANS = Ratio(
    "ratio of means",
    "the mean {target}",
    "A ratio of 1 is no difference; 2 doubles the mean, 0.5 halves it.",
)
MEDIANS = Ratio(
    "ratio of medians",
    "the median {target}",
    "A ratio of 1 is no difference; 2 doubles the median, 0.5 halves it. As the logarithm's sd is "
    "the same for everybody, means have the same ratio.",
)
