"""The clients that a session may need, each made when it is first asked for: planning makes none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.clock import Clock
from engine.clouds.nebius.client import Nebius
from engine.home.records import Records
from engine.home.roots import Roots
from engine.home.storage_keys import StorageKeys
from engine.settings import Settings

if TYPE_CHECKING:
    from engine.clouds.kubernetes import Kubernetes
    from engine.clouds.object_store import ObjectStore
    from engine.clouds.skypilot import Sky
    from engine.clouds.terraform import Binary, Terraform
    from engine.inventory.gather import Reader


class Clients:
    """One session's clients. All belong to one event loop; `aclose` ends what they hold."""

    def __init__(self, settings: Settings, roots: Roots, clock: Clock, records: Records) -> None:
        self.nebius = Nebius(settings, clock)
        self._settings = settings
        self._roots = roots
        self.clock = clock
        self._records = records
        self._kubernetes: dict[tuple[Path, str], Kubernetes] = {}
        self._stores: dict[str, ObjectStore] = {}
        self._sky: Sky | None = None

    def endpoints(self) -> Mapping[str, str]:
        """Every endpoint that a run may talk to: what it is -> where it is."""
        found = {"Nebius": self._settings.nebius_endpoint}
        if self._settings.sky_endpoint:
            found["SkyPilot"] = self._settings.sky_endpoint
        for keys in self._records.storage:
            if keys.endpoint:
                found[f"object store of {keys.bucket}"] = keys.endpoint
        for folder in self._records.clusters:
            if folder.cluster and folder.cluster.endpoint:
                found[f"Kubernetes of {folder.context}"] = folder.cluster.endpoint
        return found

    def kubernetes(self, path: Path, context: str) -> Kubernetes:
        """The cluster behind one context of one kubeconfig."""
        from engine.clouds.kubernetes import Kubernetes

        key = (path, context)
        if key not in self._kubernetes:
            self._kubernetes[key] = Kubernetes(path, context, self.clock, environ=self._settings.environ)
        return self._kubernetes[key]

    def sky(self) -> Sky:
        """SkyPilot, through a worker process."""
        from engine.clouds.skypilot import Sky

        if self._sky is None:
            config = self._records.config
            recorded = config.sky_bin if config else ""
            settings = replace(self._settings, sky_bin=self._settings.sky_bin or recorded)
            self._sky = Sky(settings, self.clock, home=self._roots.user)
        return self._sky

    def object_store(self, keys: StorageKeys) -> ObjectStore:
        """The store that recorded keys open."""
        from engine.clouds.object_store import ObjectStore, Secret, StoreAccess

        name = f"{keys.endpoint} {keys.bucket}"
        if name not in self._stores:
            access = StoreAccess(
                endpoint=keys.endpoint,
                region=keys.region or self._records.region,
                access_key_id=keys.access_key_id.reveal(),
                secret=Secret(keys.secret_key.reveal()),
            )
            self._stores[name] = ObjectStore(access, self.clock)
        return self._stores[name]

    async def terraform_binary(self) -> Binary:
        """The Terraform to use. Raises `Trouble` when there is none that will do."""
        from engine.clouds.terraform import find

        return await find(self._settings, self._settings.environ)

    async def terraform(self, module: Path, context: str) -> Terraform:
        """Terraform in a module's folder, with the operator's token and this project's storage keys for it alone.

        Raises `Trouble` when there is none that will do, or no token.
        """
        from engine.clouds.terraform import Terraform

        scratch = self._roots.terraform_scratch / "active"
        return Terraform(
            await self.terraform_binary(),
            module,
            scratch,
            self.clock,
            environ=self._settings.environ,
            context=context,
            reuse_token=self._settings.reuse_token,
            secrets={"TF_VAR_iam_token": await self.nebius.token(), **self._backend_keys()},
        )

    def _backend_keys(self) -> Mapping[str, str]:
        """What opens a state in this project's bucket; nothing where no keys are recorded."""
        keys = next((keys for keys in self._records.storage if keys.opens), None)
        if keys is None:
            return {}
        found = {
            "AWS_ACCESS_KEY_ID": keys.access_key_id.reveal(),
            "AWS_SECRET_ACCESS_KEY": keys.secret_key.reveal(),
        }
        return found | ({"AWS_SESSION_TOKEN": keys.session_token.reveal()} if keys.session_token else {})

    def readers(self) -> Mapping[str, Reader]:
        """Sources of the inventory beside the provider: SkyPilot's queue, and what runs in each recorded cluster."""
        from engine.inventory.workloads import cluster_readers, jobs_reader
        from engine.phases.jobs import Claims, read_claims

        records = self._records

        def claims() -> Claims:
            return read_claims(self._roots, records.project_id, records.aliases)

        found = cluster_readers(self.nebius, self.kubernetes, records.project_id, records.clusters)
        if records.submissions.ledgers or records.controller_owner is not None:
            found["Managed jobs"] = jobs_reader(self.sky, claims)
        return found

    async def aclose(self) -> None:
        """Close what was opened."""
        await self.nebius.aclose()
        if self._sky is not None:
            await self._sky.aclose()
        for store in self._stores.values():
            await store.close()
        for cluster in self._kubernetes.values():
            await cluster.aclose()
