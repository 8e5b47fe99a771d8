"""Phase storage_iam: the accounts that open a project's bucket, with their keys, group and permit; after the bucket."""

from engine.phases.storage_iam.deciding import Facts, decide
from engine.phases.storage_iam.phase import StorageIam

__all__ = ["Facts", "StorageIam", "decide"]
