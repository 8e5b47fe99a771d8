"""One block of object storage credentials, under any of the names that the CLI has used for its fields."""

from __future__ import annotations

from dataclasses import dataclass

from engine.home.fields import Fields
from engine.home.secret import NO_SECRET, Secret

BUCKET = ("bucket", "checkpoint_bucket", "s3_bucket")
ENDPOINT = ("endpoint_url", "endpoint", "s3_endpoint")
ACCESS_KEY = ("aws_access_key_id", "access_key_id", "access_key", "nebius_api_key")
SECRET_KEY = ("aws_secret_access_key", "secret_access_key", "secret_key", "nebius_secret_key")
SESSION_TOKEN = ("aws_session_token", "session_token")

VIEW_NAMES = ("storage", "s3", "object-storage", "object_storage")
"""Names of the compatibility section in `credentials.yaml`, and of the block in a project's stanza."""

_SECRET_SHAPES = ("access_key", "secret", "session_token", "api_key", "password")


@dataclass(frozen=True, slots=True)
class StorageKeys:
    """Where a bucket is and what opens it. `field` is where the block stands."""

    field: str
    bucket: str
    endpoint: str = ""
    region: str = ""
    addressing_style: str = "path"
    access_key_id: Secret = NO_SECRET
    secret_key: Secret = NO_SECRET
    session_token: Secret = NO_SECRET

    @property
    def opens(self) -> bool:
        """Whether both halves of a key are there."""
        return bool(self.access_key_id) and bool(self.secret_key)


def bucket_name(text: str) -> str:
    """`s3://name/prefix` or `name` as the bare bucket name."""
    return text.removeprefix("s3://").partition("/")[0]


def read_keys(found: Fields | None) -> StorageKeys | None:
    """A storage block; None when it is missing or empty. Raises `RecordError`."""
    if not found:
        return None
    return StorageKeys(
        field=found.where,
        bucket=bucket_name(found.first(*BUCKET)),
        endpoint=found.first(*ENDPOINT),
        region=found.text("region"),
        addressing_style=found.text("addressing_style") or "path",
        access_key_id=found.secret(*ACCESS_KEY),
        secret_key=found.secret(*SECRET_KEY),
        session_token=found.secret(*SESSION_TOKEN),
    )


def is_secret_field(name: str) -> bool:
    """Whether a field of a storage block holds a credential, whatever it is called exactly."""
    return any(shape in name.lower() for shape in _SECRET_SHAPES)


def is_storage_field(name: str) -> bool:
    """Whether a field goes when its bucket is gone: credentials, and where the bucket was."""
    return is_secret_field(name) or name in (*BUCKET, *ENDPOINT)
