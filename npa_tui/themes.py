"""The three themes, and which of them a terminal gets."""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

NAMES = ("npa-dark", "npa-light", "npa-ansi")


def _variables(
    ink: Mapping[str, str], cursor: tuple[str, str, str, str], base: str, selection: str
) -> dict[str, str]:
    """Textual's own variables, derived from the few colours that differ."""
    focus_bg, focus_fg, blur_bg, blur_fg = cursor
    return {
        **ink,
        "block-cursor-background": focus_bg,
        "block-cursor-foreground": focus_fg,
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": blur_bg,
        "block-cursor-blurred-foreground": blur_fg,
        "block-cursor-blurred-text-style": "none",
        "scrollbar": ink["thumb"],
        "scrollbar-hover": ink["thumb"],
        "scrollbar-active": ink["st-run"],
        "scrollbar-background": base,
        "scrollbar-background-hover": base,
        "scrollbar-background-active": base,
        "scrollbar-corner-color": base,
        "border": ink["st-run"],
        "border-blurred": ink["line"],
        "input-cursor-background": ink["st-ready"],
        "input-selection-background": selection,
    }


DARK = Theme(
    name="npa-dark",
    dark=True,
    primary="#7cb7e8",
    secondary="#8fa3b8",
    accent="#7cb7e8",
    foreground="#d5dce4",
    background="#0f1318",
    surface="#0f1318",
    panel="#161c23",
    success="#79c2a0",
    warning="#e3b562",
    error="#f08a6e",
    variables=_variables(
        {
            "line": "#2b353f",
            "muted": "#a3afbc",
            "faint": "#8491a0",
            "tint": "#1b2a37",
            "thumb": "#2a333d",
            "st-done": "#79c2a0",
            "st-run": "#7cb7e8",
            "st-ask": "#e3b562",
            "st-ready": "#d5dce4",
            "st-held": "#b9a5e0",
            "st-fail": "#f08a6e",
        },
        ("#22374a", "#eaf2f9", "#1a222b", "#d5dce4"),
        "#0f1318",
        "#7cb7e8 35%",
    ),
)

LIGHT = Theme(
    name="npa-light",
    dark=False,
    primary="#1f6398",
    secondary="#51606f",
    accent="#1f6398",
    foreground="#1d262f",
    background="#fafaf8",
    surface="#fafaf8",
    panel="#efefeb",
    success="#20704d",
    warning="#8a5a00",
    error="#b23a1c",
    variables=_variables(
        {
            "line": "#d0d2cf",
            "muted": "#4f5b67",
            "faint": "#5f6a75",
            "tint": "#dfeaf3",
            "thumb": "#c9ccc8",
            "st-done": "#20704d",
            "st-run": "#1f6398",
            "st-ask": "#8a5a00",
            "st-ready": "#1d262f",
            "st-held": "#6a4bab",
            "st-fail": "#b23a1c",
        },
        ("#cfe2f1", "#0f1a24", "#e8e9e5", "#1d262f"),
        "#fafaf8",
        "#1f6398 30%",
    ),
)

ANSI = Theme(
    name="npa-ansi",
    dark=True,
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_default",
    accent="ansi_cyan",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    variables={
        **_variables(
            {
                "line": "ansi_bright_black",
                "muted": "ansi_default",
                "faint": "ansi_bright_black",
                "tint": "ansi_default",
                "thumb": "ansi_bright_black",
                "st-done": "ansi_green",
                "st-run": "ansi_cyan",
                "st-ask": "ansi_yellow",
                "st-ready": "ansi_default",
                "st-held": "ansi_magenta",
                "st-fail": "ansi_red",
            },
            ("ansi_cyan", "ansi_black", "ansi_default", "ansi_default"),
            "ansi_default",
            "ansi_cyan",
        ),
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "block-cursor-blurred-text-style": "underline",
        "input-cursor-background": "ansi_white",
        "input-cursor-foreground": "ansi_black",
        "input-cursor-text-style": "none",
        "input-selection-foreground": "ansi_black",
    },
)

THEMES = (DARK, LIGHT, ANSI)


def choose(wanted: str, environ: Mapping[str, str], color_system: str | None) -> str:
    """The theme's name. `wanted` is what the command line says.

    Without colours, or with 16 of them, the terminal's own palette is used: our tones would all collapse to one white there.
    """
    named = wanted or environ.get("NPA_THEME", "")
    if named in NAMES:
        return named
    if f"npa-{named}" in NAMES:
        return f"npa-{named}"
    # Any value counts, also an empty one: that is how the toolkit below reads it.
    if "NO_COLOR" in environ or color_system not in ("truecolor", "256", "windows"):
        return "npa-ansi"
    return "npa-dark"


def ink_colours(name: str) -> dict[str, str]:
    """The colours of a theme as rows need them: variable -> colour as Rich names it."""
    theme = next(t for t in THEMES if t.name == name)
    named = {
        **theme.variables,
        "foreground": theme.foreground or "",
        "accent": theme.accent or "",
        "panel": theme.panel or "",
    }
    plain = {k: v for k, v in named.items() if v.startswith(("#", "ansi_")) and " " not in v}
    return {k: v.removeprefix("ansi_") for k, v in plain.items()}
