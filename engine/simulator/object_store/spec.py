"""What is in a bucket at first, as a world file says it, and what is left in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LockSpec(BaseModel):
    """Objects under retention: their versions cannot be deleted before its end."""

    model_config = ConfigDict(extra="forbid")

    objects: int = Field(default=1, ge=1, description="so many of the bucket's seeded objects")
    mode: Literal["GOVERNANCE", "COMPLIANCE"] = Field(
        default="GOVERNANCE", description="COMPLIANCE yields to no bypass"
    )
    days: float = Field(default=7.0, gt=0, description="real days from the start until retention ends")


class BucketSpec(BaseModel):
    """A bucket and its contents: `objects` alike ones, then `files`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="name of the bucket")
    versioning: bool = Field(default=False, description="versions are kept")
    prefix: str = Field(default="data/", description="in front of every seeded key")
    objects: int = Field(
        default=0, ge=0, description="so many seeded objects, with keys PREFIX0000000 and on"
    )
    bytes_each: int = Field(default=1024, ge=0, description="size of each seeded version")
    versions_each: int = Field(default=1, ge=1, description="versions of each seeded object")
    markers: int = Field(
        default=0, ge=0, description="so many keys, from the first on, have a delete marker on top"
    )
    uploads: int = Field(default=0, ge=0, description="unfinished multipart uploads")
    files: dict[str, str] = Field(default={}, description="objects by key, with their text")
    locks: list[LockSpec] = Field(
        default=[], description="retention, each on the objects that follow those of the lock before"
    )


@dataclass(frozen=True)
class Usage:
    """What a bucket holds: current objects, versions that are no markers, markers, uploads, and the bytes of all versions."""

    objects: int
    versions: int
    markers: int
    uploads: int
    bytes: int

    @property
    def empty(self) -> bool:
        return not (self.versions or self.markers or self.uploads)
