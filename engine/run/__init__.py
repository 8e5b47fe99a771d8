"""Planning and running: all concurrency, order, proof, consent, stopping and journalling are here."""
