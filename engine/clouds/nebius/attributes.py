"""From a provider's message to plain text: a path through the fields, or a function where a path does not reach.

Paths are dotted field names. A repeated field fans out, `True` reads "1", times read RFC 3339, enumerations their name;
what is unset, false, or the unspecified member of an enumeration reads as nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from engine.clock import timestamp

if TYPE_CHECKING:
    from nebius.api.nebius.compute.v1 import Disk, DiskSpec, Filesystem, FilesystemSpec, Instance
    from nebius.api.nebius.mk8s.v1 import Cluster
    from nebius.api.nebius.storage.v1 import Bucket

GIB = 1 << 30

Extract = str | tuple[str, ...] | Callable[..., str]
"""One path, several paths (all their values, once each, space-separated), or a function of the message."""


def values(message: object, path: str) -> Iterator[object]:
    """Every value that a path reaches; none for a field that is not set or that this SDK does not know."""
    head, _, rest = path.partition(".")
    if rest and not _is_set(message, head):
        return
    for one in _each(getattr(message, head, None)):
        if one is None:
            continue
        if rest:
            yield from values(one, rest)
        else:
            yield one


def text(message: object, *paths: str) -> str:
    """All values of all paths as plain text, once each, in order, space-separated."""
    found = (plain(value) for path in paths for value in values(message, path))
    return " ".join(dict.fromkeys(one for one in found if one))


def plain(value: object) -> str:
    """One value as text; the unspecified member of an enumeration, zero of a bool and an unset time are nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else ""
    if isinstance(value, Enum):
        return "" if value.name.endswith("UNSPECIFIED") else value.name
    if isinstance(value, datetime):
        return timestamp(value)
    return str(value)


def extract(message: object, how: Extract) -> str:
    if isinstance(how, str):
        return text(message, how)
    if isinstance(how, tuple):
        return text(message, *how)
    return how(message)


def extract_all(message: object, table: Mapping[str, Extract]) -> dict[str, str]:
    """The attributes that have a value."""
    found = ((name, extract(message, how)) for name, how in table.items())
    return {name: value for name, value in found if value}


def _is_set(message: object, name: str) -> bool:
    """Whether a message field was sent. The SDK answers an unset one with an empty view of it, in which an enumeration
    reads as its first member: a registry without a status would look as if it were being created."""
    presence = getattr(message, "check_presence", None)
    if presence is None:
        return True
    try:
        return bool(presence(name))
    except ValueError:  # a repeated field, or one this SDK does not know
        return True


def _each(value: object) -> Iterable[object]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return (value,)
    return value


def is_gpu(platform: str) -> bool:
    """GPU platforms are named `gpu-<model>-<link>`, the others `cpu-<generation>`."""
    return platform.startswith("gpu-")


def gpu_of(platform_path: str) -> Callable[[object], str]:
    def extract_gpu(message: object) -> str:
        return "1" if is_gpu(text(message, platform_path)) else ""

    return extract_gpu


def flag(*paths: str) -> Callable[[object], str]:
    """ "1" when one of the message fields was sent, whatever is in it."""

    def extract_flag(message: object) -> str:
        return "1" if any(True for path in paths for _ in _sent(message, path)) else ""

    return extract_flag


def _sent(message: object, path: str) -> Iterator[object]:
    head, _, rest = path.partition(".")
    if not _is_set(message, head):
        return
    value = getattr(message, head, None)
    if rest and value is not None:
        yield from _sent(value, rest)
    elif value is not None:
        yield value


def managed_disks(instance: Instance) -> str:
    """Ids of the disks that the provider deletes together with the instance."""
    return " ".join(a.id for a in instance.status.disk_attachments if a.is_managed and a.id)


def foreign_disks(instance: Instance) -> str:
    """Ids of the attached disks that stay when the instance goes."""
    managed = set(managed_disks(instance).split())
    every = text(
        instance,
        "spec.boot_disk.existing_disk.id",
        "spec.secondary_disks.existing_disk.id",
        "status.disk_attachments.id",
    )
    return " ".join(id for id in every.split() if id not in managed)


def disk_gib(disk: Disk) -> str:
    return _gib(disk.status.size_bytes or _spec_bytes(disk.spec))


def filesystem_gib(filesystem: Filesystem) -> str:
    return _gib(filesystem.status.size_bytes or _spec_bytes(filesystem.spec))


def _spec_bytes(spec: DiskSpec | FilesystemSpec) -> int:
    return (
        (spec.size_bytes or 0)
        or (spec.size_kibibytes or 0) << 10
        or (spec.size_mebibytes or 0) << 20
        or (spec.size_gibibytes or 0) << 30
    )


def _gib(size: int) -> str:
    return (str(size // GIB) if size % GIB == 0 else f"{size / GIB:.3f}") if size else ""


def bytes_gib(path: str) -> Callable[[object], str]:
    def extract_gib(message: object) -> str:
        size = text(message, path)
        return _gib(int(size)) if size.isdigit() else ""

    return extract_gib


def bucket_objects(bucket: Bucket) -> str:
    """Current objects over all storage classes; nothing when the provider gives no counters."""
    return _count(bucket, "counters.simple_objects_quantity", "counters.multipart_objects_quantity")


def bucket_versions(bucket: Bucket) -> str:
    """Objects that are no longer current, over all storage classes."""
    return _count(
        bucket,
        "non_current_counters.simple_objects_quantity",
        "non_current_counters.multipart_objects_quantity",
    )


def bucket_bytes(bucket: Bucket) -> str:
    """Everything stored and billed: current, non-current, and parts of unfinished uploads."""
    return _count(
        bucket,
        "counters.simple_objects_size",
        "counters.multipart_objects_size",
        "counters.inflight_parts_size",
        "non_current_counters.simple_objects_size",
        "non_current_counters.multipart_objects_size",
    )


def _count(bucket: Bucket, *paths: str) -> str:
    if not bucket.status.counters:
        return ""
    numbers = (value for path in paths for value in values(bucket, f"status.counters.{path}"))
    return str(sum(value for value in numbers if isinstance(value, int)))


def ca_fingerprint(cluster: Cluster) -> str:
    """SHA-256, in hex, of the DER form of the cluster's CA certificate; nothing when none or an unreadable one is given."""
    pem = text(cluster, "status.control_plane.auth.cluster_ca_certificate")
    try:
        if pem and not pem.startswith("-----BEGIN"):
            pem = base64.b64decode(pem, validate=True).decode("ascii")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest() if pem else ""
    except (ValueError, binascii.Error):
        return ""
