"""Phase bucket: the project's bucket with its contents, once nobody else's records name it and nothing needs what is in it."""

from engine.phases.bucket.deciding import Facts, decide
from engine.phases.bucket.phase import Bucket
from engine.phases.bucket.planning import adopted

__all__ = ["Bucket", "Facts", "adopted", "decide"]
