"""Formulas as MathML: readers need no script, screen readers read them, and nothing is fetched."""

import re
import unicodedata
from html import escape

from docutils import nodes
from latex2mathml.converter import convert

_TAG = re.compile(r"\\tag\{(\w+)\}")
_LETTER = re.compile(r'<mi mathvariant="(double-struck|script)">([A-Z])</mi>')


def _letter(found: re.Match) -> str:
    """Browsers have dropped the attribute; the letter itself is a character."""
    name = f"{found[1].upper()} CAPITAL {found[2]}"
    try:
        return f"<mi>{unicodedata.lookup(name)}</mi>"
    except KeyError:
        return f"<mi>{unicodedata.lookup('MATHEMATICAL ' + name)}</mi>"


def _mathml(text: str, display: str) -> str:
    return _LETTER.sub(_letter, convert(text, display=display))


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(translator, node: nodes.math_block) -> None:
    text = node.astext()
    tag = _TAG.search(text)
    formula = _mathml(_TAG.sub("", text).strip(), "block")
    number = "" if tag is None else f'<a class="eqno" href="#eq-{tag[1]}">({tag[1]})</a>'
    anchor = "" if tag is None else f' id="eq-{tag[1]}"'
    label = "" if tag is None else f' aria-label="equation {escape(tag[1])}"'
    translator.body.append(f'<div class="equation"{anchor}{label}>{formula}{number}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
