"""Tables and what is publicly known about them: a schema in, bounded arrays out.

`Schema` and `Encoder` are public knowledge and may be used anywhere;
a `Table` holds `PrivateRows`, which only the mechanism and the engine may open.
"""

from noisewise.data.column import Column
from noisewise.data.drafts import draft_of_file
from noisewise.data.encoding import Encoder, in_own_terms, source_columns
from noisewise.data.errors import DataError, SchemaError
from noisewise.data.formulas import FormulaEncoder, is_formula
from noisewise.data.gaps import GAP, fill_value, filled, indicator_name, is_gap
from noisewise.data.integration import completed
from noisewise.data.json_schema import json_schema_text
from noisewise.data.private import (
    SIZE,
    WEIGHT,
    PrivateRows,
    Rows,
    UnitLayout,
    laid_out,
    record_count,
)
from noisewise.data.review import SchemaReview, review_schema
from noisewise.data.sample import PublicSample, open_columns
from noisewise.data.schema import Schema
from noisewise.data.stored import StoredRows
from noisewise.data.table import Table
from noisewise.data.units import ONE_ROW, Unit, lay_out
from noisewise.data.weights import unit_weight
