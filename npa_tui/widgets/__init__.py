"""Widgets: each shows one value and tells what a person did. All text comes from `npa_tui.render`."""
