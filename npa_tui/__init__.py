"""The teardown console: a picture of the engine's journal, and the dialogs in which a person consents."""
