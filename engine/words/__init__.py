"""The language of the domain: frozen values and pure functions over them. No input, output, clock or await."""
