"""The order in which a home is laid, and the parts that are files of their own."""

from __future__ import annotations

from pathlib import Path

from engine.simulator.home.clusters import TOKEN_SCRIPT, lay_cluster
from engine.simulator.home.configuration import configuration
from engine.simulator.home.credentials import credentials
from engine.simulator.home.deployments import (
    agent_deployment,
    cluster_deployment,
    project_operation,
    storage_operation,
)
from engine.simulator.home.endpoints import Endpoints
from engine.simulator.home.folder import Folder
from engine.simulator.home.half_done import half_done_events, lay_half_done
from engine.simulator.home.operations import (
    Operation,
    lay_operation,
    lease,
    lease_folder,
    receipt,
    receipt_id,
)
from engine.simulator.home.runs import lay_runs
from engine.simulator.terraform import lay_module
from engine.simulator.world import AgentWorld, ClusterWorld, ProjectWorld, World


class Home:
    """One home. `path` is the HOME itself: `.npa`, `.nebius`, `.sim` and `repo` are laid in it."""

    def __init__(self, path: Path, world: World, *, token: str, endpoints: Endpoints) -> None:
        self._folder = Folder(path)
        self._world = world
        self._token = token
        self._endpoints = endpoints

    def lay(self) -> None:
        """All of it. Raises `OSError` when a file cannot be written."""
        folder, s3 = self._folder, self._endpoints.s3
        self._log_in()
        folder.yaml(".npa/config.yaml", configuration(self._world, folder.npa, s3))
        folder.yaml(".npa/credentials.yaml", credentials(self._world, s3))
        folder.lock(".npa/config.yaml.lock")
        folder.lock(".npa/credentials.yaml.lock")
        folder.lock(".npa/teardown-receipts/.lock")
        for p in self._world.projects:
            self._lay_project(p)

    def _log_in(self) -> None:
        """The provider's own configuration: a profile whose token is in a file."""
        first = self._world.projects[0]
        token = self._folder.write(".nebius/token", self._token + "\n")
        profile = {
            "endpoint": "api.nebius.cloud", "token-file": str(token), "parent-id": first.id, "tenant-id": first.tenant_id,
        }  # fmt: skip
        self._folder.yaml(".nebius/config.yaml", {"default": "simulated", "profiles": {"simulated": profile}})
        self._folder.write(".sim/kube_token.py", TOKEN_SCRIPT)

    def _lay_project(self, p: ProjectWorld) -> None:
        folder = self._folder
        operations: list[Operation] = [project_operation(p)] if p.created_here else []
        if p.storage:
            operations.append(storage_operation(p, p.storage))
        for a in p.agents:
            operations.append(agent_deployment(p, a, self._endpoints.s3))
            self._lay_agent(p, a)
        for c in p.clusters:
            module = self._module(c)
            operations.append(cluster_deployment(p, c, module))
            lay_cluster(folder, p, c, module, *self._endpoints.kubernetes[c.context])
            lay_module(module, c, self._endpoints.control)
        for o in operations:
            lay_operation(folder, p, o)
        lay_runs(folder, p)
        dead = self._world.home == "after-partial-destroy" and p is self._world.projects[0]
        more = half_done_events(p) if dead else []
        if operations:
            folder.lock(f"{lease_folder(p)}/.lock")
            folder.json(f"{lease_folder(p)}/lease.json", lease(p, operations[-1]))
        if operations or more:
            folder.json(
                f".npa/teardown-receipts/{receipt_id(p)}.json", receipt(p, operations, folder.npa, more)
            )
        if dead:
            lay_half_done(folder, p)

    def _lay_agent(self, p: ProjectWorld, a: AgentWorld) -> None:
        secret = "AGENT_USER=npa\nAGENT_PASSWORD=example-password\n"
        self._folder.write(f".npa/agents/{p.alias}/{a.name}/auth.env", secret)
        backend = (
            f'  backend "s3" {{\n    key = "npa/terraform-state/{p.alias}/{a.name}/terraform.tfstate"\n  }}\n'
        )
        self._folder.write(f".npa/workbenches/{p.alias}/{a.name}/backend.tf", f"terraform {{\n{backend}}}\n")

    def _module(self, c: ClusterWorld) -> Path:
        """Folder of a cluster's Terraform module: the checkout's own for the first cluster of all."""
        first = next(c for p in self._world.projects for c in p.clusters)
        return self._folder.path / "repo/deploy" / ("cluster" if c is first else f"cluster-{c.context}")
