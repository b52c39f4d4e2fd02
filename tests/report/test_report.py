"""The page says what the result says, needs nothing besides itself, and can be re-checked."""

from __future__ import annotations

import dataclasses
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Schema
from noisewise.dpvi import Settings
from noisewise.mechanism import Release
from noisewise.posterior import Status
from noisewise.report.intervals import interval_rows, per_unit_rows
from noisewise.report.page import write_report

HOSTILE = "<script>alert(1)</script> & \"'$x_1$"


class Reader(HTMLParser):
    """Tags with attributes, and the text as a reader would see it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def usual(make_result, tmp_path_factory) -> str:
    """The page about ``make_result()``."""
    return write_report(make_result(), tmp_path_factory.mktemp("usual") / "a.html").read_text(
        "utf-8"
    )


@pytest.fixture
def page(make_result, usual, tmp_path):
    """Write the report on ``make_result(...)`` and give back the page."""

    def written(*args, **kwargs) -> str:
        if not args and not kwargs:
            return usual
        path = write_report(make_result(*args, **kwargs), tmp_path / "fit.html")
        return path.read_text("utf-8")

    return written


def test_every_section_is_there(page):
    reader = Reader(page())
    ids = [attributes.get("id") for tag, attributes in reader.tags if tag == "section"]
    assert ids == ["intervals", "spent", "request", "trace", "check", "fine-print"]
    assert "Logistic regression of visited" in reader.text
    assert f"The fit went well: {Status.OK.words}." in reader.text
    assert "NOT PRIVATE" not in reader.text
    assert 'role="alert"' not in page()


def test_the_promises_are_in_plain_words(page):
    text = Reader(page()).text
    assert "exp(1) = 2.72 times as likely" in text
    assert "at most 73% sure" in text
    assert "1 in 1,000,000" in text
    assert "one has a single row more than the other" in text
    assert "20,180 (noised, paid from the budget)" in text


def test_replace_one_is_described_as_such(page):
    text = Reader(page(adjacency="replace-one")).text
    assert "one row is exchanged for any other" in text
    assert "a single row more" not in text


def test_a_large_delta_is_called_out(page):
    assert "not well below one over the number of rows" in Reader(page(public_count=5_000_000)).text


def test_features_can_be_read_in_units(page):
    text = Reader(page()).text
    assert "real in [0, 100]; guess: mean 45, sd 15" in text
    assert "(x − 45) / 15" in text
    assert "b / 15" in text
    assert "1 if male, otherwise 0 (reference: female)" in text


def test_coefficients_per_unit_keep_the_predictor(make_result):
    result = make_result()
    in_units = {row.label: row.aware.mean for row in per_unit_rows(result)}
    encoded = result.draws["coefficients"].mean(0)
    age, male = 62.0, 1.0
    predictor = in_units["intercept"] + in_units["age"] * age + in_units["sex=male"] * male
    assert predictor == pytest.approx(encoded @ [1.0, (age - 45) / 15, male], rel=1e-6)


def test_the_table_has_the_results_numbers(make_result, page):
    result, text = make_result(), Reader(page()).text
    for label, row in result.summary().iterrows():
        mean, sd = (f"{row[key]:.3f}".replace("-", "−") for key in ("mean", "sd"))
        assert f"{label} {mean} {sd}" in text
    unaware, aware = result.summary(noise_unaware=True), result.summary()
    ratio = (unaware["upper"] - unaware["lower"]) / (aware["upper"] - aware["lower"])
    for row in interval_rows(result):
        assert row.width_ratio == pytest.approx(ratio[row.label])
    assert "ignore the privacy noise and are shown for comparison only" in text


def test_every_release_is_listed(make_result, page):
    text = Reader(page()).text
    certificate = make_result().privacy
    assert f"Epsilon {certificate.epsilon_spent:.4f} of 1 was spent" in text
    assert "gradients Gaussian on a Poisson sample 10,000 0.1 56.6" in text
    assert "number of rows Gaussian 1 1 60" in text
    for source in certificate.sources.values():
        assert source in text
    assert f"dp-accounting {certificate.software['dp-accounting']}" in text


def test_a_release_whose_name_says_little_is_explained(make_result, page, tmp_path):
    assert "Sizes of gradients" not in Reader(page()).text
    result = make_result()
    bought = Release(what="sizes of gradients at the fit", noise_multiplier=90.0)
    more = dataclasses.replace(result.privacy, releases=(*result.privacy.releases, bought))
    path = write_report(dataclasses.replace(result, privacy=more), tmp_path / "fit.html")
    assert "Sizes of gradients at the fit: a histogram" in Reader(path.read_text("utf-8")).text


def test_an_overspent_budget_is_called_out(make_result, tmp_path):
    result = make_result()
    overspent = dataclasses.replace(result.privacy, epsilon_spent=1.5)
    path = write_report(dataclasses.replace(result, privacy=overspent), tmp_path / "fit.html")
    assert "more than the budget allows" in Reader(path.read_text("utf-8")).text


def test_burn_in_is_marked_and_told(page):
    text = Reader(page()).text
    assert "Burn-in ended at step 1,000" in text
    assert text.count("burn-in ends at step 1,000") == 2  # wide and narrow drawing


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_a_status_that_is_not_ok_has_a_banner(page, status):
    found = page(status=status)
    assert found.count("banner caution") == 1
    assert html.escape(status.words) in found
    assert "The fit did not go well" in found
    assert html.escape(Status.OK.words) not in found


def test_not_private_is_said_first_and_everywhere(page):
    reader = Reader(page(reasons=("insecure_seed=3: whoever knows it can undo the noise",)))
    assert "NOT PRIVATE" in reader.text
    assert "insecure_seed=3: whoever knows it can undo the noise" in reader.text
    assert "without a privacy guarantee" in reader.text
    assert "The promises below are void" in reader.text
    assert "the guarantee is void" in reader.text
    assert "under (1, 1e-6)-differential privacy" not in reader.text


def test_plain_intervals_are_never_called_noise_aware(page):
    text = Reader(page(posterior="naive")).text
    assert "These are plain DPVI intervals, as requested" in text
    assert "noise-aware posterior" not in text


def test_names_are_escaped_everywhere(make_result, tmp_path):
    result = make_result(
        ("intercept", HOSTILE, f"{HOSTILE}=<b>x</b>"),
        reasons=(HOSTILE,),
        model=HOSTILE,
        target=HOSTILE,
        posterior=HOSTILE,
        extra={f"{HOSTILE}!": np.random.default_rng(1).normal(size=(800, 2))},
    )
    page = write_report(result, tmp_path / "fit.html").read_text("utf-8")
    reader = Reader(page)
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"script", "b", "img", "iframe", "object", "link"}
    assert page.count("<svg ") == page.count("</svg>") == 6
    assert reader.text.count(" ".join(HOSTILE.split())) >= 8
    attributes = {name for _, found in reader.tags for name in found}
    assert not any(name.startswith("on") for name in attributes)


def test_the_page_needs_nothing_besides_itself(page):
    found = page()
    assert "http://" not in found
    assert "https://" not in found
    assert "@import" not in found
    for tag, attributes in Reader(found).tags:
        assert tag not in ("script", "link", "iframe", "img", "object", "base")
        for name in ("src", "href", "xlink:href", "srcset", "data"):
            assert (attributes.get(name) or "#").startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", found))
    assert "default-src 'none'" in found


def test_ids_are_unique_and_references_lead_somewhere(page):
    found = page()
    ids = re.findall(r'\sid="([^"]*)"', found)
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'(?:url\(#|href="#)([^")]*)', found)
    assert wanted
    assert set(wanted) <= set(ids)


def test_figures_keep_their_text_and_follow_the_pages_colours(page):
    found = page()
    for drawing in re.findall(r"<svg .*?</svg>", found, flags=re.DOTALL):
        assert "<text" in drawing
        assert "font-family" not in drawing
        assert set(re.findall(r"#[0-9a-f]{6}\b", drawing)) <= {"#000000"}
        assert "var(--" in drawing
    assert ">sex=male</text>" in found


def test_the_page_is_the_same_every_time(usual, make_result, tmp_path):
    assert write_report(make_result(), tmp_path / "fit.html").read_text("utf-8") == usual


def test_many_parameters_are_plotted_in_part_and_tabled_in_full(page):
    found = page(tuple(f"x[{i}]" for i in range(55)))
    text = Reader(found).text
    assert "The first 40 of 55 parameters" in text
    assert ">x[39]</text>" in found
    assert ">x[40]</text>" not in found
    assert '<th scope="row">x[54]</th><td>' in found
    assert 'class="scroll tall"' in found
    assert "Coloured: the 12 that moved most; grey: the other 43." in text


def test_latents_are_drawn_in_panels_of_their_own(page):
    rng = np.random.default_rng(2)
    extra = {"noise": rng.lognormal(6, 0.1, 800), "w": rng.normal(size=(800, 2, 2))}
    found = page(extra=extra)
    for label in ("noise", "w[1,0]", "coefficients"):
        assert f">{label}</text>" in found


def test_a_diverged_fit_still_has_a_page(make_result, tmp_path):
    result = make_result(status=Status.DIVERGED)
    nowhere = {"coefficients": np.full((800, 3), np.nan)}
    trace = {**result.trace, "means": np.full((50, 3), np.nan), "curvature": np.array(np.nan)}
    broken = dataclasses.replace(result, draws=nowhere, noise_unaware=nowhere, trace=trace)
    text = Reader(write_report(broken, tmp_path / "fit.html").read_text("utf-8")).text
    assert "the draws are not finite" in text
    assert "no finite trace" in text
    assert "n/a" in text
    assert not re.search(r"\bnan\b", text)


def test_a_bare_result_has_a_page(make_result, tmp_path):
    result = make_result()
    request = dataclasses.replace(
        result.request,
        target=None,
        arguments=(),
        encoding=(),
        schema=Schema((Column(name="x", kind="binary"),)),
        settings=Settings(clip_norm=1.0, rule="vanilla", contraction_rate=0.01),
    )
    bare = dataclasses.replace(result, noise_unaware={}, request=request, trace={}, coordinates={})
    text = Reader(write_report(bare, tmp_path / "fit.html").read_text("utf-8")).text
    assert "The result holds no trace." in text
    assert "coefficients[0]" in text
    assert "plain : " not in text and "noise_unaware : " not in text


@pytest.mark.parametrize(
    ("curvature", "words"),
    [
        (np.diag([0.5, 1.0, 4.0]), "run from 0.5 to 4: 1 = as simulated"),
        (np.array([0.25, 1.0, 2.0]), "run from 0.25 to 2: 1 = as simulated"),
        (np.diag([-0.5, 1.0, 4.0]), "run from −0.5 to 4: 1 = as simulated"),
    ],
)
def test_curvature_as_a_matrix_or_a_vector(page, curvature, words):
    assert words in Reader(page(curvature=curvature)).text


def test_curvature_without_a_simulated_one_is_not_compared_with_it(page):
    whitened = "of the whitened frame: the model's parameters"
    assert whitened in Reader(page()).text
    settings = Settings(clip_norm=1.0, rule="vanilla", contraction_rate=0.01)
    text = Reader(page(settings=settings)).text
    assert "1 has no special meaning" in text
    assert whitened not in text


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_stand_alone_check_runs_and_agrees(make_result, page, adjacency, capsys):
    found = page(adjacency=adjacency)
    program = re.search(r'<code id="check-alone">(.*?)</code>', found, flags=re.DOTALL)
    assert program is not None
    names: dict[str, object] = {}
    exec(html.unescape(program[1]), names)
    claimed = make_result(adjacency=adjacency).privacy.epsilon_spent
    assert names["epsilon"] == pytest.approx(claimed, rel=1e-9)
    assert f"{claimed:.6f} claimed" in capsys.readouterr().out
    assert "noisewise" not in program[1]


def test_the_noisewise_check_runs(make_result, page, tmp_path, capsys):
    program = re.search(r'<code id="check-noisewise">(.*?)</code>', page(), flags=re.DOTALL)
    assert program is not None
    result = make_result()
    folder = result.save(tmp_path / "saved")
    exec(html.unescape(program[1]).replace("folder-of-the-result", str(folder)), {})
    assert "certificate holds" in capsys.readouterr().out


def test_the_page_is_written_whole_into_a_new_folder(make_result, tmp_path):
    path = write_report(make_result(), tmp_path / "new" / "deep" / "fit.html")
    assert path == tmp_path / "new" / "deep" / "fit.html"
    assert path.read_text("utf-8").rstrip().endswith("</html>")
    assert [file.name for file in path.parent.iterdir()] == ["fit.html"]
    write_report(make_result(status=Status.NOT_CONVERGED), path)
    assert "rest on extrapolation" in path.read_text("utf-8")


def test_a_folder_is_not_a_page(make_result, tmp_path):
    with pytest.raises(NoisewiseError, match="is a folder: name a file in it"):
        write_report(make_result(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NoisewiseError, match="cannot write"):
        write_report(make_result(), Path(tmp_path / "file" / "fit.html"))


def test_the_users_matplotlib_style_is_left_alone(usual, make_result, tmp_path):
    import matplotlib

    with matplotlib.rc_context({"font.size": 33, "axes.facecolor": "red", "text.color": "red"}):
        styled = write_report(make_result(), tmp_path / "fit.html").read_text("utf-8")
        assert matplotlib.rcParams["font.size"] == 33
    assert styled == usual


def test_the_answer_comes_first_in_the_columns_own_units(make_result, page):
    text = Reader(page()).text
    per_unit, encoded = text.index("Per original unit"), text.index("coefficients in encoded units")
    assert per_unit < encoded < text.index("What was spent, and on what")
    age = next(row for row in per_unit_rows(make_result()) if row.label == "age")
    assert f"{age.aware.mean:.4f}".replace("-", "−") in text[per_unit:encoded]
    assert age.unaware is not None
    assert age.unaware.mean == pytest.approx(
        make_result().noise_unaware["coefficients"][:, 1].mean() / 15
    )


def test_a_category_is_one_line_of_the_features(make_result, tmp_path):
    levels = [f"ward {i}" for i in range(15)]
    names = ("intercept", *(f"ward={level}" for level in levels[1:]))
    encoding = tuple(
        {"name": name, "column": None if name == "intercept" else "ward", "centre": 0, "scale": 1}
        for name in names
    )
    schema = Schema((Column(name="ward", kind="category", categories=tuple(levels)),))
    result = make_result(names, encoding=encoding, schema=schema, target=None)
    text = Reader(write_report(result, tmp_path / "fit.html").read_text("utf-8")).text
    assert "14 columns of 0 and 1, one a level (reference: ward 0)" in text
    assert text.count("ward 0, ward 1, ward 2") == 1
