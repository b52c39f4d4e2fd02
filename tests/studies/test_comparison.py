"""Lines, the claims that are checked on them, and the runner around both, with invented figures."""

import json
from dataclasses import replace

import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.studies import STUDIES, run, run_study
from noisewise.studies.core.comparison import Comparison
from noisewise.studies.core.lines import (
    Line,
    Panel,
    joined,
    lies_beyond,
    reaches,
    stays_above,
)
from noisewise.studies.core.study import Part


def line(name, *levels, x=(1.0, 2.0), spread=0.1, panel="error"):
    """Three repeats around each level."""
    values = np.array(levels)[:, None] + spread * np.array([-1.0, 0.0, 1.0])
    return Line(panel=panel, name=name, x=x, values=values)


def test_means_and_errors_are_over_repeats():
    found = line("aligned", 1.0, 3.0)
    np.testing.assert_allclose(found.mean, [1.0, 3.0])
    np.testing.assert_allclose(found.error, 0.1 / 3**0.5)
    again = Line.from_dict(json.loads(json.dumps(found.to_dict())))
    np.testing.assert_array_equal(again.values, found.values)
    assert again._replace(values=None) == found._replace(values=None)


def test_an_ordering_holds_only_if_it_does_at_every_place():
    lines = [line("aligned", 1.0, 1.0), line("vanilla", 2.0, 3.0), line("natural", 4.0, 0.9)]
    better = lies_beyond("error", "aligned", ("vanilla",))(lines)
    assert better.held is True
    assert "2 of 2" in better.figures
    worse = lies_beyond("error", "aligned", ("vanilla", "natural"))(lines)
    assert worse.held is False
    assert "3 of 4" in worse.figures
    assert "aligned at 2 1 ± 0.058 against natural at 2 0.9 ± 0.058" in worse.figures
    # The gap is 1.2 standard errors of the difference: a tie by two, not by one.
    assert lies_beyond("error", "aligned", ("natural",), ties=2)(lines).held is True
    assert lies_beyond("error", "aligned", ("natural",), ties=1)(lines).held is False
    assert lies_beyond("error", "vanilla", ("aligned",), larger=True)(lines).held is True
    assert lies_beyond("error", "aligned", ("vanilla",), larger=True)(lines).held is False


def test_a_failed_fit_breaks_every_claim_about_it():
    broken = line("aligned", 1.0, 1.0)
    broken.values[1, 2] = np.nan
    lines = [broken, line("vanilla", 2.0, 3.0)]
    assert lies_beyond("error", "aligned", ("vanilla",))(lines).held is False
    assert lies_beyond("error", "aligned", ("vanilla",), larger=True)(lines).held is False
    assert stays_above("error", "aligned", 0.0)(lines).held is False


def test_a_claim_about_what_was_not_run_is_left_open():
    found = lies_beyond("error", "aligned", ("vanilla", "aligned_natural"))([line("aligned", 1, 1)])
    assert found == (None, "not run: vanilla, aligned natural")


def test_levels():
    lines = [line("vanilla", 0.9, 0.6)]
    assert stays_above("error", "vanilla", 0.5)(lines).held is True
    low = stays_above("error", "vanilla", 0.7)(lines)
    assert low.held is False
    assert "vanilla at 2 0.6" in low.figures


def test_pieces_of_a_curve_are_joined_in_order():
    late, early = line("aligned", 3.0, 4.0, x=(3.0, 4.0)), line("aligned", 1.0, 2.0)
    (found,) = joined([late, early, late])
    assert found.x == (1.0, 2.0, 3.0, 4.0)
    np.testing.assert_allclose(found.mean, found.x)


def test_medians_come_with_quartiles_and_outlast_one_bad_fit():
    found = Line(
        panel="error",
        name="dp-sep",
        x=(1.0, np.inf),
        values=np.array([[5.0, 1, 2, 3, 400], [0.5] * 5]),
    )
    np.testing.assert_array_equal(found.summary("median"), [[3, 0.5], [2, 0.5], [5, 0.5]])
    assert found.shown_at(0, "median") == "3 (2 to 5)"
    assert found.shown_at(1, "mean") == "0.5 ± 0"
    assert found._replace(values=found.values[:, :1]).shown_at(0, "median") == "5"
    rival = line("dp-em", 4.0, 1.0, x=found.x)
    assert lies_beyond("error", "dp-sep", ("dp-em",))([found, rival]).held is False
    assert lies_beyond("error", "dp-sep", ("dp-em",), middle="median")([found, rival]).held is True
    found.values[0, 0] = np.nan
    assert lies_beyond("error", "dp-sep", ("dp-em",), middle="median")([found, rival]).held is False


def test_goals_are_met_at_every_place_that_was_run():
    lines = [line("dp-sep", 1.0, 2.0)]
    assert reaches("error", "dp-sep", {1.0: 1.0, 2.0: 2.5, 50.0: 0.1})(lines).held is True
    missed = reaches("error", "dp-sep", {1.0: 1.1, 2.0: 1.9})(lines)
    assert missed.held is False
    assert "DP-SEP at 2 2 ± 0.058 for 1.9" in missed.figures
    assert reaches("error", "dp-sep", {3.0: 1.9})(lines).held is None
    assert reaches("error", "dp-em", {1.0: 1.9})(lines) == (None, "not run: DP-EM")
    lines[0].values[1, 0] = np.nan
    assert reaches("error", "dp-sep", {2.0: 2.5})(lines).held is False


def test_data_sets_are_places_too_and_keep_their_order():
    pieces = [line("sep", 1.0, 2.0, x=("wine", "naval")), line("sep", 3.0, x=("kin8nm",))]
    (found,) = joined(pieces)
    assert found.x == ("wine", "naval", "kin8nm")
    np.testing.assert_allclose(found.mean, [1.0, 2.0, 3.0])


RUNS: list[Part] = []


def _parts(options):
    return [Part(rule, "a") for rule in options.methods]


def _prepare(options):
    return {"vanilla": 2.0, "aligned": 1.0, "preconditioned": 0.5}


def _run(part, options, levels):
    RUNS.append(part)
    rng = np.random.default_rng(options.seed)
    values = levels[part.method] / np.array(options.epsilons)[:, None] + rng.normal(
        0, 0.01, (len(options.epsilons), options.fits)
    )
    curve = Line(panel="curves", name=part.method, x=options.epsilons, values=values)
    return [
        curve,
        curve._replace(name="baseline", values=3 + 0 * values, dashed=True),
        curve._replace(panel="dots", x=(1.0,), values=values[:1]),
    ]


@pytest.fixture
def study():
    """A study whose fits are invented, so that only the runner is at work."""
    RUNS.clear()
    invented = replace(
        STUDIES["full-rank"],
        panels=(
            Panel(name="curves", title="Curves", x="ε", y="error", log_x=True, log_y=True),
            Panel(name="dots", title="Dots", x="ε", y="error"),
            Panel(name="never", title="Not run", x="ε", y="error"),
        ),
        parts=_parts,
        prepare=_prepare,
        run=_run,
        claims={
            "aligned is best": lies_beyond("curves", "aligned", ("vanilla",)),
            "vanilla is best": lies_beyond("curves", "vanilla", ("aligned",)),
            "natural is best": lies_beyond("curves", "natural", ("aligned",)),
        },
        notes=("Invented.",),
    )
    return invented.at((1.0, 4.0))


def test_files_hold_what_was_measured_and_which_claims_held(study, tmp_path):
    result = run(study, fits=3, epochs=5, jobs=1)
    assert [verdict.held for verdict in result.verdicts] == [True, False, None]
    data, text, picture = result.save(tmp_path)
    plain = json.loads(data.read_text())
    assert [panel["name"] for panel in plain["panels"]] == ["curves", "dots"]
    assert [claim["held"] for claim in plain["claims"]] == [True, False, None]
    assert plain["about"]["epochs"] == 5
    table = text.read_text()
    mean, error = plain["panels"][0]["lines"][0]["mean"], result.lines[0].error
    assert f"| vanilla | {mean[0]:.3g} ± {error[0]:.2g} | {mean[1]:.3g} ± {error[1]:.2g} |" in table
    assert "- held: aligned is best (2 of 2 comparisons" in table
    assert "- NOT held: vanilla is best (0 of 2 comparisons" in table
    assert "- not checked: natural is best (not run: natural)" in table
    assert "Invented." in table
    assert "Means over 3 repeats" in table
    assert picture.stat().st_size > 10_000


def test_the_papers_figures_stand_beside_ours_and_hidden_panels_in_the_file_alone(study, tmp_path):
    printed = {"vanilla": {1.0: 2.5}, "baseline": {4.0: (3.0, 0.25)}}
    curves = study.panels[0]._replace(paper=printed, middle="median")

    def draw_more(lines, seed, folder):
        (folder / "more.txt").write_text(f"{len(lines)} lines")
        return [folder / "more.txt"]

    panels = (curves, study.panels[1]._replace(shown=False))
    changed = replace(study, panels=panels, repeats="tables", draw_more=draw_more)
    result = run(changed, fits=3, epochs=5, jobs=1)
    data, text, _, more = result.save(tmp_path)
    table = text.read_text()
    assert "| error, by ε: ours [paper's] | 1 | 4 |" in table
    shown = result.lines[0]
    assert (
        f"| vanilla | {shown.shown_at(0, 'median')} [2.5] | {shown.shown_at(1, 'median')} |"
    ) in table
    assert "| baseline | 3 (3 to 3) | 3 (3 to 3) [3 ± 0.25] |" in table
    assert "Medians over 3 tables (quartiles)" in table
    assert "Dots" not in table
    plain = json.loads(data.read_text())
    assert [panel["name"] for panel in plain["panels"]] == ["curves", "dots"]
    assert plain["panels"][0]["paper"] == {
        "vanilla": {"1.0": 2.5},
        "baseline": {"4.0": [3.0, 0.25]},
    }
    assert more.read_text() == f"{len(result.lines)} lines"


def test_a_run_that_was_cut_off_goes_on_where_it_stopped(study, tmp_path):
    first = study.with_methods(("vanilla",))
    run(first, fits=3, epochs=5, jobs=1, keep=tmp_path)
    assert [p.name for p in (tmp_path / "full-rank-parts").iterdir()] == ["vanilla-a.json"]
    whole = run(study, fits=3, epochs=5, jobs=1, keep=tmp_path, resume=True)
    assert [Part("vanilla", "a"), Part("aligned", "a")] == RUNS
    fresh = run(study, fits=3, epochs=5, jobs=1)
    for one, other in zip(whole.lines, fresh.lines, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    # Other options, or no wish to resume: everything anew.
    RUNS.clear()
    run(study, fits=4, epochs=5, jobs=1, keep=tmp_path, resume=True)
    run(study, fits=4, epochs=5, jobs=1, keep=tmp_path)
    assert len(RUNS) == 4


def test_progress_counts_parts(study):
    seen = []
    run(study, fits=2, epochs=5, jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_rules_are_chosen_like_methods(study):
    found = run(study.with_methods(("preconditioned",)), fits=2, epochs=5, jobs=1)
    assert {each.name for each in found.lines} == {"preconditioned", "baseline"}
    with pytest.raises(NoisewiseError, match="full-rank has no method 'natural': choose from"):
        study.with_methods(("natural",))


def test_mistakes_get_one_line():
    with pytest.raises(NoisewiseError, match="adult needs the folder of UCI's Adult files: --data"):
        run_study("adult")
    with pytest.raises(NoisewiseError, match="epochs must be an integer of at least 1"):
        run_study("full-rank", epochs=0)
    with pytest.raises(NoisewiseError, match="table1 has no epochs or parts: drop"):
        run_study("table1", epochs=3)


def test_every_comparison_of_the_catalogue_has_epochs():
    compared = {name for name, study in STUDIES.items() if isinstance(study, Comparison)}
    assert compared == {name for name, study in STUDIES.items() if study.epochs}
    assert len(compared) == 6
    with pytest.raises(NoisewiseError, match="fits must be"):
        run(replace(STUDIES["full-rank"], fits=1), fits=1)
