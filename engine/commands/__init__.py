"""The headless face: one module per command group, loaded when called; the only reader of stdin and writer of stdout."""
