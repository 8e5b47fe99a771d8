"""The smallest Textual app: what the console's first paint is measured against."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class Empty(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("Hello")


if __name__ == "__main__":
    Empty().run()
