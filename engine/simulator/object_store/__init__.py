"""An S3 endpoint: versions, markers, uploads, retention, batch deletion, conditional writes, and signatures really checked."""

from engine.simulator.object_store.server import ObjectStore
from engine.simulator.object_store.spec import BucketSpec, LockSpec, Usage

__all__ = ["BucketSpec", "LockSpec", "ObjectStore", "Usage"]
