"""How studies name methods, and write tables."""

_LABELS = {
    "exact": "NA-DPVI (exact)",
    "nuts": "NA-DPVI (NUTS)",
    "laplace": "NA-DPVI (Laplace)",
    "naive": "Naive (last iterate)",
    "bernstein-sheldon": "Bernstein & Sheldon",
    "plain-gibbs": "Bernstein & Sheldon, plain Gibbs",
    "dpvim": "DPVIm",
    "planned": "noisewise, planned",
    "aligned_natural": "aligned natural",
    "ep": "EP",
    "sep": "SEP",
    "adf": "ADF (PBP)",
    "clipped-sep": "clipped SEP",
    "dp-sep": "DP-SEP",
    "dp-em": "DP-EM",
    "vi": "VI",
    "dp-vi": "DP-VI",
    "literal": "Algorithm 3",
    "point": "point estimate",
    "line": "linear regression",
    "private-line": "private linear regression",
}


def label(name: str) -> str:
    """A method as people read it; what is derived from a method is "METHOD, words".

    >>> label("aligned_natural, none estimated")
    'aligned natural, none estimated'
    """
    method, *words = name.split(",", 1)
    return ",".join([_LABELS.get(method, method), *words])


def markdown_table(lines: list[list[str]]) -> str:
    """The first line is the head.

    >>> print(markdown_table([["", "a"], ["x", "1"]]))
    |  | a |
    | --- | --- |
    | x | 1 |
    """
    head, *body = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([head, "|" + " --- |" * len(lines[0]), *body])
