"""Two ways to refuse data: by what was declared, and by what was found in the rows."""

from noisewise._validate import NoisewiseError


class SchemaError(NoisewiseError):
    """A declaration that cannot be used; schemas are public, so the message quotes it."""


class DataError(NoisewiseError):
    """A table that does not keep to its schema.

    The message is meant for the holder of the data. It names the column and what was declared about
    it, and never a value, a row, a number of offending rows or the length of the table. Even so,
    that an error was raised at all depends on the rows without any noise: neither the message nor
    the fact that there was one is part of a private release.
    """
