"""Tables and what is publicly known about them: a schema in, bounded arrays out.

The first house of the street. `Schema` and `Encoder` are public knowledge and may be used anywhere;
a `Table` holds rows, and only the mechanism may read them.
"""

from noisewise.data.column import Column
from noisewise.data.encoding import Encoder
from noisewise.data.errors import DataError, SchemaError
from noisewise.data.sample import PublicSample
from noisewise.data.schema import Schema
from noisewise.data.table import Table

__all__ = ["Column", "DataError", "Encoder", "PublicSample", "Schema", "SchemaError", "Table"]
