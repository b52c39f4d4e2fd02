"""What a wheel must do in a bare environment, without a warning of its own.

Import, fit, save, load, report, command line. `make matrix` runs this against every supported
Python, with the lowest and the newest dependencies. It needs noisewise alone: no pytest, no
checkout on the path.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path


def main() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _fit_and_keep()
    import noisewise

    package = str(Path(noisewise.__file__).parent)
    ours = [w for w in caught if w.filename.startswith(package)]
    if ours:
        sys.exit("warnings from noisewise itself:\n" + "\n".join(map(str, ours)))
    print(f"noisewise {noisewise.__version__} on Python {sys.version.split()[0]}: fine")


def _fit_and_keep() -> None:
    import numpy as np

    import noisewise as nw

    if "site-packages" not in str(Path(nw.__file__)):
        sys.exit(f"the checkout was imported, not the wheel: {nw.__file__}")
    schema = nw.Schema.from_toml(_write(_SCHEMA))
    random = np.random.default_rng(1)
    age = random.uniform(20, 80, 2000)
    ill = random.random(2000) < 1 / (1 + np.exp(-(age - 50) / 10))
    table = nw.Table({"age": age, "ill": ill.astype(int)}, schema)
    budget = nw.Budget(epsilon=2.0, delta=1e-5)
    result = nw.fit("logistic", table, budget=budget, target="ill", steps=200, insecure_seed=1)
    if not 0 < result.summary()["mean"].iloc[-1] < 10:
        sys.exit("the effect of age, which is large and positive, was not found")
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "fit"
        result.save(kept)
        again = nw.Result.load(kept)
        if not again.summary().equals(result.summary()):
            sys.exit("a result that was saved and loaded is another one")
        again.report(Path(folder) / "report.html")
        if "<html" not in (Path(folder) / "report.html").read_text():
            sys.exit("the report is no page")
    for words in (["--help"], ["fit", "--help"], ["--version"]):
        command = [sys.executable, "-I", "-m", "noisewise", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


_SCHEMA = """
[columns.age]
type = "real"
bounds = [20, 80]

[columns.ill]
type = "binary"
"""


def _write(text: str) -> Path:
    path = Path(tempfile.mkdtemp()) / "people.toml"
    path.write_text(text)
    return path


if __name__ == "__main__":
    main()
