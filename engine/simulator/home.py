"""Writes the `~/.npa` that the existing CLI would have left for a world: an independent writer that our readers meet."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from engine.simulator.ids import (
    agent_ids,
    agent_operation,
    cluster_ids,
    cluster_operation,
    operation_id,
    storage_ids,
)
from engine.simulator.terraform import lay_module
from engine.simulator.world import AgentWorld, ClusterWorld, ProjectWorld, RunWorld, StorageWorld, World

AT = "2026-11-20T08:00:00Z"
ATTEMPT = "97698c45220f40a8a1e02c09378d410b"

Doc = dict[str, Any]


class Home:
    """Lays one home. `endpoints`: `s3`, `control`, and `kubernetes` with (url, CA in base64) by context."""

    def __init__(
        self,
        folder: Path,
        world: World,
        *,
        token: str,
        s3: str,
        control: str,
        kubernetes: dict[str, tuple[str, str]],
    ) -> None:
        self.folder = folder
        self._npa = folder / ".npa"
        self._world = world
        self._token = token
        self._s3 = s3
        self._control = control
        self._kubernetes = kubernetes

    def lay(self) -> None:
        """All of it."""
        self._npa.mkdir(mode=0o700, parents=True)
        self._nebius()
        self._yaml(".npa/config.yaml", self._config())
        self._yaml(".npa/credentials.yaml", self._credentials())
        for p in self._world.projects:
            for a in p.agents:
                self._agent(p, a)
            for c in p.clusters:
                self._cluster(p, c)
            if p.storage:
                self._storage_operation(p, p.storage)
            if p.created_here:
                self._project_operation(p)
            for r in p.runs:
                self._run(p, r)
        if self._world.home == "after-partial-destroy":
            self._partial_destroy(self._world.projects[0])

    # -- files ----------------------------------------------------------------------------------------------------------

    def _write(self, path: str, text: str, mode: int = 0o600) -> Path:
        target = self.folder / path
        for parent in reversed(target.relative_to(self.folder).parents):
            (self.folder / parent).mkdir(mode=0o700, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)
        return target

    def _yaml(self, path: str, document: Doc) -> None:
        self._write(path, yaml.safe_dump(document, sort_keys=False))

    def _json(self, path: str, document: Doc) -> None:
        self._write(path, json.dumps(document, indent=2, sort_keys=True) + "\n")

    def _nebius(self) -> None:
        token = self._write(".nebius/token", self._token + "\n")
        profile = {
            "endpoint": "api.nebius.cloud",
            "token-file": str(token),
            "parent-id": self._world.projects[0].id,
            "tenant-id": self._world.projects[0].tenant_id,
        }
        self._yaml(".nebius/config.yaml", {"default": "simulated", "profiles": {"simulated": profile}})
        script = (
            "import json, sys\n"
            "status = {'token': open(sys.argv[1]).read().strip()}\n"
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1beta1', 'kind': 'ExecCredential', 'status': status}))\n"
        )
        self._write(".sim/kube_token.py", script)

    # -- config.yaml and credentials.yaml -----------------------------------------------------------------------------

    def _config(self) -> Doc:
        projects: Doc = {}
        owner: Doc | None = None
        for p in self._world.projects:
            stanza: Doc = {"project_id": p.id, "tenant_id": p.tenant_id, "region": p.region}
            if p.storage:
                ids = storage_ids(p.storage)
                stanza["terraform_state"] = {
                    "bucket": p.storage.bucket,
                    "endpoint": self._s3,
                    "access_key": ids.aws_key,
                    "secret_key": ids.aws_secret,
                }
            if p.agents:
                stanza["agents"] = {a.name: self._agent_stanza(p, a) for a in p.agents}
            projects[p.alias] = stanza
            for c in p.clusters:
                if c.controller:
                    owner = self._owner(p, c)
        sky: Doc = {"sky_bin": str(self._npa / "skypilot-venv/bin/sky")}
        if owner:
            sky["controller_owner"] = owner
        return {"projects": projects, "default_project": self._world.projects[0].alias, "skypilot": sky}

    def _agent_stanza(self, p: ProjectWorld, a: AgentWorld) -> Doc:
        ids = agent_ids(p, a)
        return {
            "project_id": p.id, "tenant_id": p.tenant_id, "region": p.region, "public_ip": "198.51.100.20", "instance_id": ids.instance,
            "service_account_id": ids.account, "agent_url": "https://198.51.100.20/", "auth_user": "npa",
            "auth_secret_path": str(self._npa / f"agents/{p.alias}/{a.name}/auth.env"),
            "llm": {"provider": "token-factory", "model": "example/model", "models": ["example/model"]}, "ssh_key_path": "~/.ssh/id_ed25519",
            "public_https": True, "setup_state": "healthy",
        }  # fmt: skip

    def _owner(self, p: ProjectWorld, c: ClusterWorld) -> Doc:
        cluster = cluster_ids(c).cluster
        mark = hashlib.sha256(f"{p.id}\0{cluster}\0{c.context}\0".encode()).hexdigest()
        return {
            "schema_version": "npa.controller-owner.v1", "project_alias": p.alias, "project_id": p.id, "cluster_id": cluster, "cluster_name": c.context,
            "context": c.context, "context_fingerprint": mark, "mode": "kubernetes", "namespace": "sky-system", "name": "jobs-controller",
            "operation_id": cluster_operation(p, c),
        }  # fmt: skip

    def _credentials(self) -> Doc:
        setups, records, accounts = {}, {}, {}
        for p in self._world.projects:
            if p.storage:
                records[p.id] = self._record(p, p.storage)
                if p.storage.owned:
                    setups[p.id] = self._setup(p, p.storage)
            if p.agents:
                accounts[p.id] = self._agent_account(p)
        document: Doc = {"storage_setup": {"version": 1, "projects": setups}} if setups else {}
        if records:
            current = next(iter(records))
            document["project_credentials"] = {
                "schema_version": "npa.project-credentials.v2",
                "projects": records,
                "current_project_id": current,
            }
            record = records[current]
            document["storage"] = record["storage"]
            proof = (
                "service_account_id",
                "service_account_name",
                "service_account_project_id",
                "service_account_managed_by",
            )
            document["storage_iam"] = {
                k: record["storage_iam"][k] for k in proof if k in record["storage_iam"]
            }
            document["nebius"] = record["nebius"]
        document["tokens"] = {"HF_TOKEN": "hf_example_not_a_token", "CUSTOM_VENDOR_TOKEN": "keep-me"}
        if accounts:
            document["agent_iam"] = {"version": 1, "projects": accounts}
        return document

    def _record(self, p: ProjectWorld, s: StorageWorld) -> Doc:
        ids = storage_ids(s)
        proof = {
            "service_account_id": ids.account, "service_account_name": "lerobot-training", "service_account_project_id": p.id, "service_account_managed_by": "npa",
        }  # fmt: skip
        binding = {
            "state": "created", "role": "storage.object-editor", "scope_id": p.id, "group_id": ids.group,
            "group_name": f"npa-storage-object-editors-{p.id}", "access_permit_id": ids.permit, "group_managed_by": "npa", "access_permit_managed_by": "npa",
        }  # fmt: skip
        return {
            "storage": {"aws_access_key_id": ids.aws_key, "aws_secret_access_key": ids.aws_secret, "endpoint_url": self._s3, "bucket": f"s3://{s.bucket}/"},
            "nebius": {"service_account_id": ids.account},
            "storage_iam": {
                **proof, "active_service_account_id": ids.account, "generations": [{**proof, "access_key_ids": [ids.key], "binding": binding}],
            },
            "project_id": p.id, "aliases": [p.alias], "updated_at": AT,
        }  # fmt: skip

    def _setup(self, p: ProjectWorld, s: StorageWorld) -> Doc:
        ids = storage_ids(s)
        made = {"created_by": "npa", "project_id": p.id, "attempt_id": ATTEMPT, "created_at": AT}
        return {
            "version": 1, "status": "complete", "phase": "credentials_committed", "attempt_id": ATTEMPT, "project_id": p.id, "tenant_id": p.tenant_id,
            "region": p.region, "bucket_name": s.bucket, "project_alias": p.alias, "next_command": "", "updated_at": AT, "last_error": "",
            "probe_cleanup_succeeded": True,
            "resources": {
                "service_account": {"name": "lerobot-training", "id": ids.account, **made},
                "bucket": {"name": s.bucket, "id": ids.bucket, **made},
                "iam_group": {"name": f"npa-storage-object-editors-{p.id}", "id": ids.group, **made},
                "iam_permit": {"id": ids.permit, "group_id": ids.group, **made},
                "access_keys": {ids.key: {"name": "lerobot-access-key", "id": ids.key, "service_account_id": ids.account, **made}},
            },
        }  # fmt: skip

    def _agent_account(self, p: ProjectWorld) -> Doc:
        ids = agent_ids(p, p.agents[0])
        made = {"created_by": "npa", "project_id": p.id, "created_at": AT}
        keys = {ids.key: {"id": ids.key, "name": "npa-agent-access-key", **made}}
        return {
            "status": "complete",
            "resources": {
                "service_account": {"id": ids.account, "name": "npa-agent", **made},
                "access_keys": keys,
            },
        }

    # -- operations -----------------------------------------------------------------------------------------------------

    def _operation(
        self,
        p: ProjectWorld,
        id: str,
        command: str,
        kind: str,
        name: str,
        resources: list[Doc],
        backend: Doc,
        argv: list[str],
        down: list[str],
    ) -> None:
        phases = ("prepared", "mutating", "resource-created", "state-durable", "committed")
        document = {
            "schema_version": "npa.provisioning.operation.v2", "operation_id": id, "command": command, "project_alias": p.alias, "project_id": p.id,
            "tenant_id": p.tenant_id, "region": p.region, "backend": backend, "resource_type": kind, "requested_name": name,
            "ownership_source": "cli", "phase": "committed", "lifecycle": "succeeded", "result": "succeeded", "created_at": AT, "updated_at": AT,
            "heartbeat_at": AT, "owner_pid": 999999, "resume_count": 0, "resources": resources, "config_mutations": [], "checkpoints": {},
            "events": [{"phase": phase, "recorded_at": AT} for phase in phases], "last_error": "", "last_error_type": "",
            "recovery_commands": {"resume": " ".join(argv), "resume_argv": argv, "destroy": " ".join(down), "destroy_argv": down},
        }  # fmt: skip
        self._json(f".npa/operations/{id}/journal.json", document)
        for lock in (".lock", ".execution.lock"):
            self._write(f".npa/operations/{id}/{lock}", "")

    def _resource(
        self,
        p: ProjectWorld,
        kind: str,
        id: str,
        name: str,
        source: str,
        labels: dict[str, str] | None = None,
    ) -> Doc:
        return {
            "resource_type": kind, "provider_id": id, "requested_name": name, "project_id": p.id, "ownership": "created_by_this_operation",
            "ownership_source": source, "labels": labels or {}, "creation_window_start": AT, "creation_window_end": AT, "recorded_at": AT,
        }  # fmt: skip

    def _agent(self, p: ProjectWorld, a: AgentWorld) -> None:
        ids, operation = agent_ids(p, a), agent_operation(p, a)
        labels, name = {"npa-operation-id": operation}, f"agent-{p.alias}-{a.name}"
        rows = [
            self._resource(
                p, "compute_instance", ids.instance, name, "terraform-output-and-operation-label", labels
            )
        ]
        for kind, id, suffix in (
            ("boot_disk", ids.disk, "boot"), ("network", ids.network, "network"), ("subnet", ids.subnet, "subnet"),
            ("security_group", ids.security_group, "sg"), ("public_ip", ids.allocation, "ip"),
        ):  # fmt: skip
            known = id if a.ids_recorded else ""
            rows.append(
                self._resource(
                    p, kind, known, f"{name}-{suffix}", "terraform-state-and-operation-instance-label", labels
                )
            )
        key = f"npa/terraform-state/{p.alias}/{a.name}/terraform.tfstate"
        backend = {
            "bucket": p.storage.bucket if p.storage else "",
            "endpoint": self._s3,
            "region": p.region,
            "state_key": key,
        }
        argv = ["npa", "agent", "deploy", "--project", p.alias, "--name", a.name]
        down = ["npa", "agent", "destroy", "--project", p.alias, "--name", a.name, "--yes"]
        self._operation(p, operation, "npa agent deploy", "agent", a.name, rows, backend, argv, down)
        self._write(
            f".npa/agents/{p.alias}/{a.name}/auth.env", "AGENT_USER=npa\nAGENT_PASSWORD=example-password\n"
        )
        self._write(f".npa/workbenches/{p.alias}/{a.name}/backend.tf", "# the state is in the bucket\n")

    def _cluster(self, p: ProjectWorld, c: ClusterWorld) -> None:
        ids, operation = cluster_ids(c), cluster_operation(p, c)
        module = (
            self.folder
            / "repo/deploy"
            / ("cluster" if c is self._world.projects[0].clusters[0] else f"cluster-{c.context}")
        )
        rows = [
            self._resource(
                p, "managed_kubernetes_cluster", ids.cluster, c.context, "terraform-output-and-state"
            ),
            self._resource(p, "network", ids.network, f"{c.context}-network", "terraform-state"),
            self._resource(p, "subnet", ids.subnet, f"{c.context}-subnet", "terraform-state"),
            self._resource(
                p, "service_account", ids.account, f"{c.context}-k8s-node-group-sa", "terraform-state"
            ),
        ]
        argv = ["npa", "provision-if-absent", "--project", p.alias]
        down = ["npa", "cluster", "down", "--project", p.alias, "--context", c.context, "--force"]
        self._operation(
            p,
            operation,
            "npa provision-if-absent",
            "cluster",
            c.context,
            rows,
            {"kind": "local-state", "terraform_dir": str(module)},
            argv,
            down,
        )
        url, ca = self._kubernetes[c.context]
        base = f".npa/clusters/{c.context}"
        self._json(f"{base}/cluster.json", {
            "name": c.context, "cluster_id": ids.cluster, "project_id": p.id, "region": p.region, "node_count": c.cpu_nodes + c.gpu_nodes,
            "node_platform": c.gpu_platform, "node_preset": c.gpu_preset, "k8s_version": "1.33", "created_at": AT, "subnet_id": ids.subnet,
            "last_seen_state": "RUNNING", "last_seen_at": "", "node_group_id": "", "endpoint": url, "provider_name": c.context,
            "kubeconfig_path": str(self.folder / base / "kubeconfig"),
        })  # fmt: skip
        self._json(
            f"{base}/metadata.json",
            {
                "managed_by": "npa cluster terraform",
                "event": "gpu_health_validated",
                "updated_at": AT,
                "teardown": "npa cluster down",
            },
        )
        self._json(f"{base}/terraform-lifecycle.json", {
            "version": 1, "managed_by": "npa", "kind": "cluster-terraform-inventory", "context": c.context, "terraform_dir": str(module),
            "status": "apply_started", "updated_at": AT,
        })  # fmt: skip
        token = {
            "apiVersion": "client.authentication.k8s.io/v1beta1", "command": sys.executable, "interactiveMode": "IfAvailable",
            "args": ["-S", str(self.folder / ".sim/kube_token.py"), str(self.folder / ".nebius/token")],
        }  # fmt: skip
        self._yaml(f"{base}/kubeconfig", {
            "apiVersion": "v1", "kind": "Config", "current-context": c.context,
            "contexts": [{"name": c.context, "context": {"cluster": c.context, "user": c.context}}],
            "clusters": [{"name": c.context, "cluster": {"server": url, "certificate-authority-data": ca}}],
            "users": [{"name": c.context, "user": {"exec": token}}],
        })  # fmt: skip
        lay_module(module, p, c, self._control)

    def _storage_operation(self, p: ProjectWorld, s: StorageWorld) -> None:
        ids = storage_ids(s)
        source = "storage-provider-create-callback"
        rows = [
            self._resource(p, "storage_service_account", ids.account, "lerobot-training", source),
            self._resource(p, "storage_bucket", ids.bucket, s.bucket, "storage-write-probe"),
            self._resource(p, "storage_iam_group", ids.group, f"npa-storage-object-editors-{p.id}", source),
            self._resource(p, "storage_iam_access_permit", ids.permit, ids.permit, source),
            self._resource(p, "storage_access_key", ids.key, "lerobot-access-key", source),
        ]
        if not s.owned:
            rows = [{**r, "ownership": "pre_existing"} for r in rows]
        id = operation_id("npa provision-if-absent", p.id, "storage", s.bucket)
        argv = ["npa", "provision-if-absent", "--project", p.alias, "--skip-k8s"]
        self._operation(
            p,
            id,
            "npa provision-if-absent",
            "storage",
            s.bucket,
            rows,
            {"bucket": s.bucket, "region": p.region},
            argv,
            [],
        )

    def _project_operation(self, p: ProjectWorld) -> None:
        row = self._resource(
            p,
            "nebius_project",
            p.id,
            p.alias,
            "provider-create-response",
            {"region": p.region, "tenant_id": p.tenant_id},
        )
        id = operation_id("npa fleet deploy", p.id, "project", p.alias)
        self._operation(
            p,
            id,
            "npa fleet deploy",
            "project",
            p.alias,
            [row],
            {},
            ["npa", "fleet", "status"],
            ["npa", "destroy", "--all", "--delete-project"],
        )

    def _run(self, p: ProjectWorld, r: RunWorld) -> None:
        document: Doc = {
            "schema_version": "npa.workflow.submission.v1", "project": p.alias, "run_id": r.run_id, "updated_at": AT,
            "launch_state": "planned" if r.job else "reserved", "workflow": {"name": "physical-ai-data-factory", "kind": "npa.workflow/v0.0.1"},
        }  # fmt: skip
        if r.job:
            document["launch"] = {
                "status": "submitted",
                "sky_job_id": str(r.job.job_id),
                "job_name": r.job.name,
            }
        self._json(f".npa/workflow-submissions/{p.alias}/{r.run_id}.json", document)

    # -- a half-done destroy --------------------------------------------------------------------------------------------

    def _partial_destroy(self, p: ProjectWorld) -> None:
        """What a dead `npa destroy` leaves: a journal in recovery with its phase plan, and a lease that names it."""
        id = operation_id("npa destroy", p.id, "project-teardown", p.alias)
        names = (
            "workflows",
            "agents",
            "controller",
            "clusters",
            "bucket",
            "storage_iam",
            "local_cleanup",
            "forget_alias",
            "final_audit",
        )
        argv = ["npa", "destroy", "--project", p.alias, "--all", "--yes"]
        self._operation(p, id, "npa destroy", "project-teardown", p.alias, [], {}, argv, argv)
        path = self._npa / f"operations/{id}/journal.json"
        document = json.loads(path.read_text())
        document |= {
            "phase": "recovery-required", "lifecycle": "failed", "result": "failed", "last_error_type": "PartialProjectTeardown",
            "events": [{"phase": "mutating", "recorded_at": AT}, {"phase": "recovery-required", "recorded_at": AT}],
            "preflight_plan": {
                "decision": "execute", "project_alias": p.alias, "project_id": p.id, "tenant_id": p.tenant_id, "region": p.region, "receipt_id": "",
                "topology": {"phases": [{"phase": n, "commands": [], "requires": [], "detail": "", "metadata": {}} for n in names]},
            },
        }  # fmt: skip
        self._json(f".npa/operations/{id}/journal.json", document)
        folder = f".npa/operations/.projects/{hashlib.sha256(p.id.encode()).hexdigest()}"
        self._json(f"{folder}/lease.json", {
            "schema_version": "npa.project.lifecycle-lease.v1", "project_identity": p.id, "project_id": p.id, "project_alias": p.alias, "operation_id": id,
            "command": "npa destroy", "resource_type": "project-teardown", "phase": "recovery-required", "lifecycle": "failed", "owner_pid": 999999,
            "acquired_at": AT, "recovery_commands": {"resume": " ".join(argv), "resume_argv": argv, "destroy": " ".join(argv), "destroy_argv": argv},
        })  # fmt: skip
        self._write(f"{folder}/.lock", "")
