"""``{evidence} NAME``: what `make evidence` kept of a command, with what made it."""

import json
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

_FOLDER = Path(__file__).parents[2] / "evidence"


class Evidence(SphinxDirective):
    """The whole run's text and figures, else the small run's, else that there is none."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        kinds = [kind for kind in ("whole", "small") if (_FOLDER / kind / f"{name}.json").exists()]
        if not kinds:
            return [nodes.paragraph("", f"Not run on this code: make evidence. ({name})")]
        folder = _FOLDER / kinds[0]
        made = json.loads((folder / f"{name}.json").read_text())
        self.env.note_dependency(str(folder / f"{name}.json"))
        text = (folder / f"{name}.txt").read_text().strip()
        if made["exit"] != 0:
            text = "This command failed; its last words:\n\n" + text[-600:]
        state = " with uncommitted changes" if made["uncommitted"] else ""
        lines = [
            f"`{made['command']}`, commit `{made['commit']}`{state}, {made['day']}, "
            f"{made['processor_seconds']} s of processor on: {made['machine']}.",
            "",
            *(text.splitlines() if "| ---" in text else ["```text", *text.splitlines(), "```"]),
        ]
        for picture in sorted(folder.glob(f"{name}-*.png")):
            lines += ["", f"![{picture.stem}](../evidence/{kinds[0]}/{picture.name})"]
        holder = nodes.container()
        self.state.nested_parse(StringList(lines, str(folder)), self.content_offset, holder)
        return holder.children


def setup(app):
    app.add_directive("evidence", Evidence)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
