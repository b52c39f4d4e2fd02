"""The command line's page, from the commands themselves."""

import re
from pathlib import Path

from typer import main
from typer.cli import get_docs_for_click

from noisewise.cli import app as commands


def _write(app) -> None:
    command = main.get_command(commands)
    context = command.context_class(command, info_name="noisewise")
    text = get_docs_for_click(obj=command, ctx=context, name="noisewise", title="Commands")
    text = text[text.index("**Commands**") :]  # before it stands what the landing page has
    text = re.sub(r"\[/?(bold|dim|italic)\]", "", text).replace("\\[", "[")
    page = Path(app.srcdir) / "_generated" / "commands.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
