"""S3: whether a bucket is there, what is in it, and emptying it. One client over aiohttp, for small reads and bulk alike."""

from engine.clouds.object_store.access import Secret, StoreAccess
from engine.clouds.object_store.failures import StoreTrouble
from engine.clouds.object_store.report import Held, PurgeProgress, PurgeReport
from engine.clouds.object_store.store import BUCKET, Contents, ObjectStore

__all__ = [
    "BUCKET",
    "Contents",
    "Held",
    "ObjectStore",
    "PurgeProgress",
    "PurgeReport",
    "Secret",
    "StoreAccess",
    "StoreTrouble",
]
