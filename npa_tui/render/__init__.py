"""Values to rows: pure functions that give Rich text. No widget, no application, no clock is known here."""
