"""The outside: each client turns a provider's answers into words, and its failures into a `Cause`."""
