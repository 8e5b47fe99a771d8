"""The records that the `npa` CLI keeps on disk: one module per kind, strict reads, atomic writes, its own lock files.

A reader answers with the record, with None or an empty tuple for what is really absent, or raises `RecordError`. Malformed and
unreadable are never absent. Reading writes nothing: no lock file, no mode repaired, no journal reclassified on disk.
"""
