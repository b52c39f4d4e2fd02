"""Formulas such as ``visits ~ age * sex``: from text to a design matrix, by the schema alone.

The operators are read by formulaic: it knows all of R's (``^``, ``%in%`` and ``.`` among them) and
is what statsmodels reads formulas with, so that terms and names are those that people know.
formulae, bambi's, was the other candidate: it knows group terms, but neither ``^`` nor ``.``, and
turns expressions into calls on a data frame. Only formulaic's parser is used. Its evaluation runs
expressions as Python on the rows, and takes means, knots and levels from them; here both are our
own: every record by itself, and all state from what is declared.
"""

from noisewise.data.formulas.design import FormulaEncoder
from noisewise.data.formulas.parsing import is_formula
from noisewise.data.formulas.terms import INTERCEPT
