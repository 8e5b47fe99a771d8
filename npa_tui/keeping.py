"""What a person takes away from the screen: the value that is highlighted, and the receipt as a file."""

from __future__ import annotations

import os
from pathlib import Path

from npa_tui.commands.base import Where
from npa_tui.render.notice import details
from npa_tui.render.receipt import markdown
from npa_tui.state import Scene, View


def highlighted(at: Where) -> str:
    """The raw value under the cursor of a pane, but for the log's lines; empty when there is none."""
    match at.pane:
        case "inventory":
            return at.item.row.ref.id if at.item else ""
        case "receipt":
            return at.view.receipt or at.view.journal
        case _ if at.view.scene is Scene.ERROR:
            return details(at.view)
        case "projects":
            return at.project.project_id if at.project else ""
        case _:
            return at.view.digest


def write_receipt(view: View, folder: Path) -> Path:
    """Write the receipt as Markdown into the folder, never over an existing file. Raises `OSError`."""
    assert view.identity is not None
    name = f"teardown-{view.identity.label}-{view.digest[:8]}-{view.now:%Y%m%dT%H%M%SZ}.md"
    path = folder / name.replace(os.sep, "-")
    with path.open("x", encoding="utf-8") as file:
        file.write(markdown(view))
    return path
