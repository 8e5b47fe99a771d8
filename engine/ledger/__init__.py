"""Our journal: the one truth about a teardown, and its projections into the existing CLI's records."""
