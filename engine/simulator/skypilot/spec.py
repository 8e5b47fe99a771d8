"""What a SkyPilot API server knows at first, as a world file says it."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CONTROLLER = "sky-jobs-controller-"
"""How the name of a jobs controller's cluster begins."""
OPERATOR = "operator"
"""The user whom the server runs as."""


class JobSpec(BaseModel):
    """A managed job."""

    model_config = ConfigDict(extra="forbid")

    job_id: int = Field(description="its id in the queue")
    name: str = Field(description="its name; several may have the same")
    status: str = Field(default="RUNNING", description="a ManagedJobStatus, or a word that no client knows")
    user: str = Field(default=OPERATOR, description="name of who submitted it")
    workspace: str = Field(default="default", description="its workspace")
    resources: str = Field(default="1x[L40S:1]", description="what it runs on, as the queue shows it")
    tasks: list[str] = Field(
        default=[], description="names of its tasks, each a row of the queue, when not just one"
    )
    worker: str = Field(
        default="", description="name on the cloud of its worker cluster, whose pods go when the job ends"
    )
    ends_after: float | None = Field(
        default=None, ge=0, description="nominal seconds from the start until it ends by itself"
    )
    ends_as: str = Field(default="SUCCEEDED", description="the status that it ends with by itself")
    notice_seconds: float = Field(
        default=0.5, ge=0, description="nominal seconds from a cancel until it is CANCELLING"
    )
    cancel_seconds: float = Field(
        default=5.0, ge=0, description="nominal seconds from CANCELLING to CANCELLED"
    )
    ignores_cancels: int = Field(default=0, ge=0, description="so many cancels have no effect")
    sticks_in: str | None = Field(
        default=None, description="a cancel gets it to this status, such as CANCELLING, and no further"
    )


class SkyClusterSpec(BaseModel):
    """A cluster in the server's records."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description=f"its name; with {CONTROLLER} in front it is the jobs controller")
    context: str = Field(description="context of the Kubernetes cluster that it lives on")
    status: Literal["UP", "INIT", "STOPPED"] = Field(default="UP", description="status on record")
    user: str = Field(default=OPERATOR, description="name of who launched it")
    name_on_cloud: str = Field(default="", description="its name there; NAME-USERHASH when empty")
    down_seconds: float = Field(default=0.4, ge=0, description="nominal seconds that taking it down lasts")
    down_leaves_pods: bool = Field(
        default=False, description="taking it down succeeds, drops the record and leaves the pods"
    )


class SkySpec(BaseModel):
    """An API server: its records, and the queue that its jobs controller keeps."""

    model_config = ConfigDict(extra="forbid")

    user_hash: str = Field(default="abcd1234", description="hash of the user whom the server runs as")
    clusters: list[SkyClusterSpec] = Field(default=[], description="clusters on record")
    jobs: list[JobSpec] = Field(default=[], description="managed jobs")
    consolidated: bool = Field(
        default=False, description="the server itself is the jobs controller: there is no cluster of it"
    )

    def hash_of(self, user: str) -> str:
        """A user's hash, eight hex digits."""
        if user == OPERATOR:
            return self.user_hash
        return hashlib.md5(user.encode(), usedforsecurity=False).hexdigest()[:8]
