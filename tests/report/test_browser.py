"""The page in a real browser: what it shows at desktop and phone width, and what it asks for."""

from __future__ import annotations

import html
import json
import re
import shutil
import struct
import subprocess

import numpy as np
import pytest

from noisewise.data import Column, Schema
from noisewise.models import bind_model
from noisewise.posterior import Status
from noisewise.report.page import write_report

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_BROWSER = next(filter(None, map(shutil.which, _NAMES)), None)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)

needs_browser = pytest.mark.skipif(
    _BROWSER is None, reason=f"no browser on PATH (looked for {', '.join(_NAMES)})"
)
pytestmark = needs_browser

# The page allows no scripts of its own, so it is looked at from outside: from a page around it.
_AROUND = """<!DOCTYPE html><body style="margin: 0">
<iframe id="page" style="border: 0; width: %d000px; height: 9000px" srcdoc="%s"></iframe>
<pre id="seen"></pre>
<script>
window.onload = () => {
  const view = document.getElementById("page").contentWindow, page = view.document;
  const shown = [...page.querySelectorAll("svg")].filter(svg => svg.getBoundingClientRect().width);
  const cut = [], overlapping = [];
  for (const svg of shown) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(
      text => [text.textContent, text.getBoundingClientRect()]);
    texts.forEach(([words, a], i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 ||
          a.top < frame.top - 1 || a.bottom > frame.bottom + 1) cut.push(words);
      for (const [others, b] of texts.slice(i + 1))
        if (a.left < b.right - 1 && b.left < a.right - 1 &&
            a.top < b.bottom - 4 && b.top < a.bottom - 4) overlapping.push([words, others]);
    });
  }
  document.getElementById("seen").textContent = JSON.stringify({
    width: view.innerWidth, needed: page.documentElement.scrollWidth, cut, overlapping,
    figures: shown.map(svg => svg.getAttribute("class")),
    headings: [...page.querySelectorAll("h2")].filter(h => h.offsetHeight).map(h => h.innerText),
    hidden: [...page.querySelectorAll(".scroll")].filter(
      table => table.scrollWidth > table.clientWidth + 1 &&
        !table.nextElementSibling?.classList.contains("swipe")).map(table => table.ariaLabel),
    scripts: page.scripts.length,
    requests: view.performance.getEntriesByType("resource").map(entry => entry.name),
  });
};
</script>"""


def _chromium(tmp_path, *arguments) -> subprocess.CompletedProcess[str]:
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [str(_BROWSER), *_FLAGS, profile, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def looked_at(tmp_path, page: str, width: int) -> dict:
    """What the page looks like from outside, at this width."""
    around = _AROUND.replace("%d000", str(width)).replace("%s", html.escape(page))
    (tmp_path / "around.html").write_text(around, encoding="utf-8")
    done = _chromium(tmp_path, "--dump-dom", (tmp_path / "around.html").as_uri())
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found is not None
    assert "CONSOLE" not in done.stderr
    return json.loads(html.unescape(found[1]))


@pytest.fixture(scope="module")
def crowded(make_result, tmp_path_factory) -> str:
    """A page with everything on it: banners, long and hostile names, several latents."""
    names = ("intercept", "age", "sex=male", "<script>alert(1)</script>", "occupation=" + "m" * 90)
    rng = np.random.default_rng(3)
    result = make_result(
        names + tuple(f"ward[{i}]" for i in range(12)),
        status=Status.NOT_CONVERGED,
        reasons=("insecure_seed=3: whoever knows it can undo the noise",),
        extra={"noise": rng.lognormal(9, 0.3, 800), "w": rng.normal(0, 1e-4, (800, 2, 3))},
    )
    path = tmp_path_factory.mktemp("crowded") / "fit.html"
    return write_report(result, path).read_text("utf-8")


@pytest.mark.parametrize(("width", "drawing"), [(1200, "wide"), (700, "wide"), (390, "narrow")])
def test_the_page_as_it_is_rendered(crowded, tmp_path, width, drawing):
    seen = looked_at(tmp_path, crowded, width)
    assert seen["width"] == width
    assert seen["needed"] <= width, "the page scrolls sideways"
    assert seen["figures"] == [drawing] * 3
    assert len(seen["headings"]) == 6
    assert seen["cut"] == []
    assert seen["overlapping"] == []
    assert seen["scripts"] == 0
    assert seen["requests"] == []


def test_it_loads_on_its_own_without_complaints(crowded, tmp_path):
    (tmp_path / "fit.html").write_text(crowded, encoding="utf-8")
    done = _chromium(tmp_path, "--dump-dom", (tmp_path / "fit.html").as_uri())
    assert "CONSOLE" not in done.stderr
    assert done.stdout.count("</section>") == 6
    assert "<script" not in done.stdout


def test_a_picture_of_it_is_not_blank(crowded, tmp_path):
    (tmp_path / "fit.html").write_text(crowded, encoding="utf-8")
    picture = tmp_path / "fit.png"
    page = (tmp_path / "fit.html").as_uri()
    _chromium(tmp_path, "--window-size=1200,1600", f"--screenshot={picture}", page)
    content = picture.read_bytes()
    assert struct.unpack(">2I", content[16:24]) == (1200, 1600)
    assert len(content) > 40_000


_TIMES = (
    Column(name="age", kind="real", bounds=(20, 100), mean=60, sd=12),
    Column(name="smoker", kind="binary"),
    Column(name="ward", kind="category", categories=("a", "b", "c")),
    Column(name="months", kind="real", bounds=(0.1, 10), mean=4, sd=3),
    Column(name="died", kind="binary"),
)


@pytest.fixture(scope="module")
def survival(make_result, tmp_path_factory) -> str:
    """A page with ratios and survival curves."""
    bound = bind_model("weibull", Schema(_TIMES), ["months", "died"])
    result = make_result(
        tuple(bound.coordinates["coefficients"]),
        extra={"shape": np.full(800, 1.4)},
        model=bound.name,
        schema=bound.view.schema,
        target="months",
        event="died",
        encoding=tuple(bound.view.encoder.describe()),
    )
    path = tmp_path_factory.mktemp("survival") / "fit.html"
    return write_report(result, path).read_text("utf-8")


@pytest.mark.parametrize("width", [1200, 390])
def test_ratios_releases_and_curves_can_be_read_in_full(survival, tmp_path, width):
    """Whatever table is wider than the screen says that it can be swiped; no label is cut."""
    seen = looked_at(tmp_path, survival, width)
    assert seen["hidden"] == []
    assert seen["cut"] == [] and seen["overlapping"] == []
    assert seen["needed"] <= width
