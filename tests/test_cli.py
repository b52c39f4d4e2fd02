"""The command line as a person uses it: real files, real folders, one-line errors."""

import dataclasses
import json
import re

import pandas as pd
import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli import app
from people import make_frame, make_schema

RUN = CliRunner()
STEPS = "1000"  # as many as the shared fit has, so that its noise is known already
FAST = ["--epsilon", "1", "--delta", "1e-6", "--steps", STEPS, "--features", "age,sex"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    frame = pd.DataFrame(make_frame())
    frame.to_csv(folder / "people.csv", index=False)
    frame.to_parquet(folder / "people.parquet")
    (folder / "people.toml").write_text(make_schema().to_toml())
    (folder / "model.py").write_text(
        "import numpyro, numpyro.distributions as dist\n"
        "def visits(age, visited=None):\n"
        "    w = numpyro.sample('w', dist.Normal(0, 1).expand([2]).to_event(1))\n"
        "    with numpyro.plate('people', age.shape[0]):\n"
        "        eta = w[0] + w[1] * (age - 54) / 36\n"
        "        numpyro.sample('visited', dist.Bernoulli(logits=eta), obs=visited)\n"
    )
    return folder


def fit(files, *more, data="people.csv", out="out", options=FAST, target="visited"):
    return RUN.invoke(
        app,
        [
            "fit",
            str(files / data),
            "--schema",
            str(files / "people.toml"),
            *(["--target", target] if target else []),
            *options,
            "-o",
            str(files / out),
            *more,
        ],
    )


@pytest.fixture(scope="module")
def fitted(files):
    outcome = fit(files)
    assert outcome.exit_code == 0, outcome.output
    return files / "out", outcome


def test_fit_writes_result_and_report(fitted):
    folder, outcome = fitted
    assert {p.name for p in folder.iterdir()} == {
        *("arrays.npz", "digest.txt", "result.json", "report.html")
    }
    assert "sex=m" in outcome.output
    assert "number of rows" in outcome.output
    assert nw.Result.load(folder).privacy.private


def test_predict_writes_a_line_for_every_new_record(fitted, files):
    path = files / "predictions.csv"
    command = ["predict", str(fitted[0]), str(files / "people.parquet"), "-o", str(path)]
    path.write_text("an earlier file")
    outcome = RUN.invoke(app, command)
    assert outcome.exit_code == 2 and "pass --overwrite" in " ".join(outcome.output.split())
    assert path.read_text() == "an earlier file"
    command += ["--overwrite"]
    outcome = RUN.invoke(app, command)
    assert outcome.exit_code == 0, outcome.output
    found = pd.read_csv(path)
    pd.testing.assert_frame_equal(found, nw.Result.load(fitted[0]).predict(make_frame()))
    outcome = RUN.invoke(app, [*command, "--kind", "outcome"])
    assert outcome.exit_code == 2
    assert "'visited' is binary" in " ".join(outcome.output.split())


def test_version_is_said():
    outcome = RUN.invoke(app, ["--version"])
    assert (outcome.exit_code, outcome.output.strip()) == (0, nw.__version__)


def test_verify_recomputes_the_certificate(fitted):
    outcome = RUN.invoke(app, ["verify", str(fitted[0])])
    assert outcome.exit_code == 0
    assert "certificate holds" in outcome.output


def test_verify_fails_on_forged_releases(fitted, tmp_path):
    """Also where the forger has made the digest fit; a changed file does not even load."""
    found = nw.Result.load(fitted[0])
    first, *others = found.privacy.releases
    weaker = dataclasses.replace(first, noise_multiplier=first.noise_multiplier / 2)
    claimed = dataclasses.replace(found.privacy, releases=(weaker, *others))
    forged = dataclasses.replace(found, privacy=claimed).save(tmp_path / "forged")
    outcome = RUN.invoke(app, ["verify", str(forged)])
    assert outcome.exit_code == 1
    assert "DOES NOT HOLD" in outcome.output
    (forged / "result.json").write_text((forged / "result.json").read_text() + " ")
    outcome = RUN.invoke(app, ["verify", str(forged)])
    assert outcome.exit_code == 2
    assert "was changed since it was written" in outcome.output


def test_a_ledger_and_a_key_on_the_command_line(files, tmp_path):
    """A fit that is signed and spends; one more than the total is refused, and nothing saved."""
    run = tmp_path / "people.db", tmp_path / "keys"
    book, keys = map(str, run)
    assert RUN.invoke(app, ["ledger", "init", book, "--epsilon", "1.2"]).exit_code == 0
    assert RUN.invoke(app, ["ledger", "init", book, "--epsilon", "9"]).exit_code == 2
    assert RUN.invoke(app, ["keys", keys]).exit_code == 0
    spending = ["--ledger", book, "--purpose", "visits [by] age"]
    outcome = fit(files, *spending, "--sign", f"{keys}/private.pem", out="signed")
    assert outcome.exit_code == 0, outcome.output
    assert "epsilon 1 of 1.2 is spent" in " ".join(outcome.output.split())
    signed = str(files / "signed")
    outcome = RUN.invoke(app, ["verify", signed, "--key", f"{keys}/public.pem"])
    assert outcome.exit_code == 0 and "signature holds" in outcome.output
    RUN.invoke(app, ["keys", f"{keys}/others"])
    outcome = RUN.invoke(app, ["verify", signed, "--key", f"{keys}/others/public.pem"])
    assert outcome.exit_code == 1 and "signature DOES NOT HOLD" in outcome.output
    outcome = fit(files, *spending, out="second")
    assert outcome.exit_code == 2 and "allows epsilon 1.2 in all" in outcome.output
    assert not (files / "second").exists()
    outcome = fit(files, "--purpose", "none", out="second")
    assert outcome.exit_code == 2 and "--purpose is written into a ledger" in outcome.output
    page, plain = tmp_path / "ledger.html", tmp_path / "ledger.json"
    outcome = RUN.invoke(app, ["ledger", "show", book, "-o", str(page)])
    assert outcome.exit_code == 0 and "visits [by] age" in page.read_text()
    assert "Further fits at epsilon 1 would bring it to" in outcome.output
    assert RUN.invoke(app, ["ledger", "export", book, "-o", str(plain)]).exit_code == 0
    (entry,) = [line for line in json.loads(plain.read_text())["lines"] if "budget" in line["body"]]
    assert entry["body"]["purpose"] == "visits [by] age"
    outcome = RUN.invoke(app, ["ledger", "export", book, "-o", str(plain)])
    assert outcome.exit_code == 2 and "cannot write" in outcome.output


def test_report_writes_the_page_again(fitted, tmp_path):
    outcome = RUN.invoke(app, ["report", str(fitted[0]), "-o", str(tmp_path / "page.html")])
    assert outcome.exit_code == 0
    assert "<html" in (tmp_path / "page.html").read_text()


def test_parquet_and_a_model_from_a_file(files):
    model = ["--model", f"{files / 'model.py'}:visits"]
    options = ["--epsilon", "1", "--steps", STEPS]
    outcome = fit(files, *model, data="people.parquet", out="own", options=options, target=None)
    assert outcome.exit_code == 0, outcome.output
    assert nw.Result.load(files / "own").draws["w"].shape[1] == 2


def test_an_insecure_seed_is_shouted(files):
    outcome = fit(files, "--insecure-seed", "3", out="seeded")
    assert outcome.exit_code == 0
    assert "NOT PRIVATE" in outcome.output
    assert RUN.invoke(app, ["verify", str(files / "seeded")]).exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "0"], "epsilon must be a positive finite number"),
        (["--epsilon", "nan"], "epsilon must be a positive finite number, got nan"),
        (["--epsilon", "1", "--delta", "2"], "delta must be"),
        (["--epsilon", "1", "--adjacency", "friends"], "adjacency must be one of"),
        (["--epsilon", "1", "--model", "cloglog"], "neither logistic"),
        (["--epsilon", "1", "--features", "height"], "height"),
    ],
)
def test_bad_requests_end_in_one_line_and_leave_nothing(files, options, message):
    outcome = fit(files, out="never", options=options)
    assert outcome.exit_code == 2
    assert message in outcome.output
    errors = [line for line in outcome.output.splitlines() if line.strip()]
    assert len(errors) == 1
    assert not (files / "never").exists()


def test_an_existing_folder_is_refused_before_data_are_read(files, fitted):
    outcome = fit(files, data="not-there.csv")
    assert outcome.exit_code == 2
    assert "exists already" in outcome.output


def test_bad_cells_are_refused_without_quoting_them(files):
    frame = pd.DataFrame(make_frame())
    frame.loc[5, "age"] = 1234.5678
    frame.to_csv(files / "bad.csv", index=False)
    outcome = fit(files, data="bad.csv", out="never")
    assert outcome.exit_code == 2
    assert "age" in outcome.output
    assert "1234" not in outcome.output
    assert fit(files, "--clamp", data="bad.csv", out="clamped").exit_code == 0


def test_help_teaches():
    outcome = RUN.invoke(app, ["--help"])
    assert outcome.exit_code == 0
    for word in ("demo", "schema", "noisewise fit", "bounds"):
        assert word in outcome.output
    assert "--epsilon" in re.sub(r"\x1b\[[0-9;]*m", "", RUN.invoke(app, ["fit", "--help"]).output)


@pytest.mark.slow
def test_the_demo_runs_on_the_real_table(tmp_path):
    pytest.importorskip("statsmodels", reason="the demo's data ship with statsmodels")
    outcome = RUN.invoke(app, ["demo", "-o", str(tmp_path / "demo.html")])
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.count("NOT FOR RELEASE") == 2
    assert "lncoins" in outcome.output
    held = re.search(r"noise-aware intervals that hold .*: (\d+) of 10", outcome.output)
    # Secure noise, so no two runs agree; an interval misses the non-private estimate about once in
    # a hundred (it covers privacy noise alone), so fewer than 7 of 10 is below one in a million.
    assert int(held.group(1)) >= 7
    assert (tmp_path / "demo.html").stat().st_size > 20_000


@pytest.fixture(scope="module")
def planned(files):
    path = files / "plan.toml"
    outcome = RUN.invoke(
        app,
        [
            "plan",
            str(files / "people.toml"),
            *("--rows", "1500", "--target", "visited", "--features", "age,sex", "--epsilon", "1"),
            *("--fits", "2", "--recalibrate", "4", "--steps", STEPS, "-o", str(path)),
        ],
    )
    assert outcome.exit_code == 0, outcome.output
    return path, outcome


def test_plan_writes_a_plan_and_a_page(planned):
    path, outcome = planned
    assert "from 4 simulated fits" in outcome.output
    assert "sex=m" in outcome.output
    assert nw.Plan.load(path).settings.steps == int(STEPS)
    assert "no row was read" in path.read_text()
    assert path.with_suffix(".html").read_text().startswith("<!DOCTYPE html>")


def test_fit_takes_the_plan(files, planned):
    options = ["--epsilon", "1", "--delta", "1e-6", "--features", "age,sex"]
    outcome = fit(files, "--plan", str(planned[0]), out="with-plan", options=options)
    assert outcome.exit_code == 0, outcome.output
    sources = nw.Result.load(files / "with-plan").privacy.sources
    assert sources["clip norm and settings"].startswith("plan file plan.toml")


def test_coverage_says_a_verdict_and_writes_a_page(files, planned):
    page = files / "coverage.html"
    outcome = RUN.invoke(
        app,
        [
            "coverage",
            str(files / "people.toml"),
            *("--rows", "1500", "--target", "visited", "--features", "age,sex", "--epsilon", "1"),
            *("--plan", str(planned[0]), "--simulations", "20", "--test-rows", "20"),
            *("--folder", str(files / "groups"), "-o", str(page)),
        ],
    )
    assert outcome.exit_code == 0, outcome.output
    assert "intervals are" in outcome.output
    assert "joint coverage RMSE" in outcome.output
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert list((files / "groups").glob("group-*.npz"))


@pytest.mark.slow
def test_an_impossible_plan_gets_one_line(files):
    outcome = RUN.invoke(
        app,
        [
            "plan",
            str(files / "people.toml"),
            *("--rows", "50", "--target", "visited", "--features", "age,sex", "--epsilon", "0.01"),
            *("-o", str(files / "none.toml")),
        ],
    )
    assert outcome.exit_code == 2
    assert "would leave the posterior at the prior" in outcome.output
    assert not (files / "none.toml").exists()


def test_an_audit_says_its_verdict_and_writes_a_page(tmp_path):
    page = tmp_path / "audit.html"
    given = ["audit", "--mechanisms", "bought sums", "--trials", "1000", "-o", str(page)]
    done = RUN.invoke(app, given)
    assert done.exit_code == 0, done.output
    assert "no attack got beyond the claim" in done.stdout and "bought sums" in done.stdout
    assert "bought sums" in page.read_text("utf-8")
    unknown = RUN.invoke(app, [*given[:2], "DQ", "-o", str(page)])
    assert unknown.exit_code == 2
    assert "no mechanism begins with 'DQ'" in unknown.stderr


def test_a_study_prints_its_table_and_saves_it(tmp_path):
    options = ["--draws", "200", "-o", str(tmp_path / "found")]
    done = RUN.invoke(app, ["study", "figure1", *options])
    assert done.exit_code == 0
    assert "slope κA" in done.output
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "figure1.json",
        "figure1.md",
        "figure1.png",
    ]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("study", "table7"), "study must be one of"),
        (("study", "table3"), "needs the folder of UCI's Adult files"),
        (("study", "table1", "--methods", "magic"), "has no method 'magic'"),
    ],
)
def test_a_study_that_cannot_run_gets_one_line(arguments, line):
    done = RUN.invoke(app, list(arguments))
    assert done.exit_code == 2
    assert line in " ".join(done.output.split())
