"""Where the records lie: the CLI's two independent roots, their overrides, and our own folder."""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Roots:
    """Absolute paths. `origin` names for each root the environment variable that set it, or `HOME`.

    The CLI has two roots that do not move together: `config` (its YAML stores, clusters, scratch) and `home` (all else).
    """

    user: Path
    home: Path
    config: Path
    receipts: Path
    operations: Path
    uninstall: Path
    sky_state: Path
    sky_venv: Path
    plugin_cache: Path
    ours: Path
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def config_yaml(self) -> Path:
        return self.config / "config.yaml"

    @property
    def credentials_yaml(self) -> Path:
        return self.config / "credentials.yaml"

    @property
    def clusters(self) -> Path:
        return self.config / "clusters"

    @property
    def terraform_scratch(self) -> Path:
        return self.config / "terraform-data" / "cluster"

    @property
    def runs(self) -> Path:
        return self.config / "workflow-runs"

    @property
    def submissions(self) -> Path:
        return self.home / "workflow-submissions"

    @property
    def agents(self) -> Path:
        return self.home / "agents"

    @property
    def workbenches(self) -> Path:
        return self.home / "workbenches"

    @property
    def split(self) -> bool:
        """Whether the two roots are apart, so that each path shown should say which it is under."""
        return self.config != self.home

    def lease_folder(self, project: str) -> Path:
        """The lease folder of a project id, of an alias where no id is known, or of `configure-bootstrap`."""
        return self.operations / ".projects" / hashlib.sha256(project.encode()).hexdigest()

    def lease_lock(self, project: str) -> Path:
        """The lock that is the right to change this project. The CLI never waits for it."""
        return self.lease_folder(project) / ".lock"

    def operation(self, operation_id: str) -> Path:
        return self.operations / operation_id

    def operation_lock(self, operation_id: str) -> Path:
        return self.operation(operation_id) / ".lock"

    def execution_lock(self, operation_id: str) -> Path:
        """Held by the CLI for the whole mutation window of one operation."""
        return self.operation(operation_id) / ".execution.lock"

    @property
    def receipts_lock(self) -> Path:
        """One for all receipts."""
        return self.receipts / ".lock"

    def agent_lock(self, alias: str, name: str) -> Path:
        return self.home / "locks" / "agents" / f"{alias}.{name}.lock"


def yaml_lock(path: Path) -> Path:
    """The lock beside `config.yaml` and `credentials.yaml`, held for one read, change and replacement."""
    return path.with_name(path.name + ".lock")


def roots(environ: Mapping[str, str]) -> Roots:
    """Every root for this environment. An override that is empty is none; `~` at its start is the user's home.

    `NPA_HOME` stands in for `~/.npa` wherever no narrower override is set.
    """
    user = Path(environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir)
    origin: dict[str, str] = {}

    def at(name: str, variable: str, default: Path, inherited: str) -> Path:
        text = environ.get(variable, "")
        origin[name] = variable if text else inherited
        return _absolute(text, user) if text else default

    home = at("home", "NPA_HOME", user / ".npa", "HOME")
    root = origin["home"]
    config = at("config", "NPA_CONFIG_DIR", home, root)
    return Roots(
        user=user,
        home=home,
        config=config,
        receipts=at("receipts", "NPA_TEARDOWN_RECEIPT_DIR", home / "teardown-receipts", root),
        operations=at("operations", "NPA_OPERATION_JOURNAL_DIR", home / "operations", root),
        uninstall=at("uninstall", "NPA_UNINSTALL_RECEIPT_DIR", home / "uninstall-receipts", root),
        sky_state=at("sky_state", "NPA_SKY_STATE_DIR", user / ".sky", "HOME"),
        sky_venv=at("sky_venv", "NPA_SKYPILOT_VENV_PATH", config / "skypilot-venv", origin["config"]),
        plugin_cache=at("plugin_cache", "TF_PLUGIN_CACHE_DIR", home / "terraform-plugin-cache", root),
        ours=at("ours", "", home / "teardown", root),
        origin=origin,
    )


def _absolute(text: str, user: Path) -> Path:
    if text == "~" or text.startswith("~/"):
        return user / text[2:]
    return Path(text).absolute()
