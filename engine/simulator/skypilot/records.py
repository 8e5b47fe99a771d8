"""The clusters in the server's records: what a look at them says, and what taking one down really does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.simulator.kubernetes import KubernetesCluster
from engine.simulator.skypilot.errors import NONE, SkyError, not_up
from engine.simulator.skypilot.jobs import Body
from engine.simulator.skypilot.spec import CONTROLLER, SkyClusterSpec, SkySpec

Say = Callable[[str], None]
_TRIES_SECONDS = 10.0
"""Nominal seconds that a refused deletion of pods is tried again, before taking down fails."""


@dataclass
class Record:
    """A cluster on record. `seen_at`: when its status was last looked up."""

    spec: SkyClusterSpec
    user_hash: str
    name_on_cloud: str
    launched_at: int = field(default_factory=lambda: int(time.time()) - 3600)
    seen_at: int = field(default_factory=lambda: int(time.time()) - 600)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its pods and services."""
        return {"skypilot-cluster-name": self.name_on_cloud}

    @property
    def is_controller(self) -> bool:
        return self.spec.name.startswith(CONTROLLER)

    def row(self) -> dict[str, Any]:
        return {
            "name": self.spec.name, "launched_at": self.launched_at, "last_use": "sky jobs launch", "status": self.spec.status,
            "autostop": -1, "to_down": False, "owner": None, "metadata": {}, "cluster_hash": "5b0f", "cluster_ever_up": True,
            "status_updated_at": self.seen_at, "user_hash": self.user_hash, "user_name": self.spec.user, "workspace": "default",
            "is_managed": False, "nodes": 1, "cloud": "Kubernetes", "region": self.spec.context, "cpus": "4", "memory": "16",
            "labels": {}, "resources_str": "1x(cpus=4, mem=16)", "resources_str_full": "1x(cpus=4, mem=16, disk=50)",
            "cluster_name_on_cloud": self.name_on_cloud, "handle": NONE, "storage_mounts_metadata": NONE,
        }  # fmt: skip


class Records:
    """All clusters on record, and the Kubernetes clusters that they may live on, by context."""

    def __init__(self, spec: SkySpec, contexts: Mapping[str, KubernetesCluster], time_scale: float) -> None:
        self._contexts, self._scale = contexts, time_scale
        self._consolidated = spec.consolidated
        self._rows: dict[str, Record] = {}
        for c in spec.clusters:
            user_hash = spec.hash_of(c.user)
            on_cloud = c.name_on_cloud or f"{c.name}-{user_hash}"
            self._rows[c.name] = Record(c.model_copy(), user_hash, on_cloud)

    @property
    def all(self) -> list[Record]:
        return list(self._rows.values())

    @property
    def controller(self) -> Record | None:
        return next((r for r in self._rows.values() if r.is_controller), None)

    def home_of(self, record: Record) -> KubernetesCluster | None:
        """The Kubernetes cluster that a record lives on; None when it cannot be reached."""
        found = self._contexts.get(record.spec.context)
        return None if found is None or found.stopped else found

    def reach_controller(self) -> None:
        """Raises `SkyError` when there is nobody who could be asked about jobs."""
        record = self.controller
        if self._consolidated:
            return
        if record is None:
            raise not_up("No in-progress managed jobs.", None)
        if record.spec.status == "STOPPED":
            raise not_up("Jobs controller is stopped.", "STOPPED")
        home = self.home_of(record)
        if home is None:
            message = "Failed to fetch managed jobs with returncode: 1. Unable to connect to the server"
            raise SkyError("RuntimeError", message)
        if record.spec.status == "INIT" or not _runs(home, record):
            raise not_up("Failed to connect to jobs controller, please try again later.", "INIT")

    def controller_lives(self) -> bool:
        try:
            self.reach_controller()
        except SkyError:
            return False
        return True

    def look(self, body: Body, user_hash: str, say: Say) -> list[Body]:
        """Rows of `status`. FORCE looks the pods up; where that fails the row on record is shown, and only the log says so."""
        names = body.get("cluster_names")
        for record in self.all if body.get("refresh") == "FORCE" else []:
            if not names or record.spec.name in names:
                self._refresh(record, say)
        return [
            r.row()
            for r in self._rows.values()
            if (not names or r.spec.name in names)
            and (body.get("all_users", True) or r.user_hash == user_hash)
        ]

    def _refresh(self, record: Record, say: Say) -> None:
        home = self.home_of(record)
        if home is None or not home.may("list", "pods"):
            say(f"Failed to refresh status for 1 cluster: {record.spec.name}: ClusterStatusFetchingError\n")
            return
        record.seen_at = int(time.time())
        if not home.find(record.labels):
            home.remove_services(record.labels)
            del self._rows[record.spec.name]

    async def down(self, body: Body) -> Record:
        """Take a cluster down; the record that is gone. It refuses nothing, and its success says nothing about pods."""
        record = self._rows.get(str(body.get("cluster_name")))
        if record is None:
            raise SkyError("ClusterDoesNotExist", f"Cluster {body.get('cluster_name')!r} does not exist.")
        try:
            await self._take_down(record)
        except SkyError:
            if not body.get("purge"):
                raise
        self._rows.pop(record.spec.name, None)
        return record

    async def _take_down(self, record: Record) -> None:
        home = self.home_of(record)
        if home is None:
            raise _cloud_error(
                "urllib3", "MaxRetryError", "Max retries exceeded with url: /api/v1/namespaces/default/pods"
            )
        home.remove_services(record.labels)
        if not home.may("delete", "pods"):
            await asyncio.sleep(_TRIES_SECONDS * self._scale)
            raise _cloud_error("kubernetes", "ApiException", "(403) Reason: Forbidden")
        await asyncio.sleep(record.spec.down_seconds * self._scale)
        if not record.spec.down_leaves_pods:
            home.remove_pods(record.labels)


def _runs(home: KubernetesCluster, record: Record) -> bool:
    pods = home.find(record.labels)
    return any(p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"] for p in pods)


def _cloud_error(provider: str, kind: str, message: str) -> SkyError:
    return SkyError("CloudError", message, {"cloud_provider": provider, "error_type": kind})
