"""One module, or one folder, per phase; all of one shape (`engine.phases.shape`)."""
