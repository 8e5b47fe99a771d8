"""Changes to `config.yaml`, as pure functions from a document to a document. No key is ever added under `skypilot`.

They are applied by `engine.home.writers`, under the file's lock. Each may change its argument, and returns it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from engine.home.documents import Document
from engine.home.errors import Kind
from engine.home.marker import KEY as MARKER
from engine.home.marker import merged_marker, reduced_marker
from engine.home.sections import bucket_of, conflict, drop_empty, section, strip_storage

_PATH = Path("config.yaml")
_STANZA_STORAGE = ("object-storage", "object_storage", "storage")


def _section(document: Document, *names: str) -> Document | None:
    return section(document, *names, path=_PATH, kind=Kind.CONFIG)


def forget_project(document: Document, alias: str, project_id: str) -> Document:
    """Remove a stanza; point `default_project` elsewhere or drop it; drop the controller's owner if it was this project.

    The owner stays while another stanza names the same project. A stanza that is gone already is fine.
    Raises `RecordError` when the alias now names another project, and while the storage access marker stands.
    """
    projects = _section(document, "projects")
    stanza = _section(document, "projects", alias)
    if projects is None or alias not in projects:
        return _forget_owner(document, alias, project_id)
    named = (stanza or {}).get("project_id")
    if named and project_id and named != project_id:
        raise conflict(_PATH, Kind.CONFIG, f"projects.{alias}.project_id", "names another project now")
    if (stanza or {}).get(MARKER):
        raise conflict(
            _PATH,
            Kind.CONFIG,
            f"projects.{alias}.{MARKER}",
            "says that storage access may be left in the cloud",
        )
    del projects[alias]
    if document.get("default_project") == alias:
        if projects:
            document["default_project"] = next(iter(projects))
        else:
            del document["default_project"]
    return _forget_owner(document, alias, project_id)


def _forget_owner(document: Document, alias: str, project_id: str) -> Document:
    sky = _section(document, "skypilot")
    owner = _section(document, "skypilot", "controller_owner")
    if sky is None or not owner:
        return document
    of_alias = not owner.get("project_id") and owner.get("project_alias") == alias
    of_project = bool(project_id) and owner.get("project_id") == project_id
    if of_alias or (of_project and not _others(document, project_id)):
        del sky["controller_owner"]
        drop_empty(document, "skypilot")
    return document


def _others(document: Document, project_id: str) -> list[str]:
    """Aliases whose stanza names this project."""
    return [
        alias
        for alias in _section(document, "projects") or {}
        if (_section(document, "projects", alias) or {}).get("project_id") == project_id
    ]


def clear_controller_owner(document: Document, project_id: str, cluster_id: str, context: str) -> Document:
    """Remove the owner of the shared controller, global or in a stanza, where all three ids are the given ones."""
    wanted = (project_id, cluster_id, context)
    holders = [_section(document, "skypilot")]
    holders += [_section(document, "projects", alias) for alias in _section(document, "projects") or {}]
    for holder in holders:
        owner = holder.get("controller_owner") if holder else None
        if holder and isinstance(owner, dict):
            found = (owner.get("project_id"), owner.get("cluster_id"), owner.get("context"))
            if found == wanted:
                del holder["controller_owner"]
    if document.get("skypilot") == {}:
        del document["skypilot"]
    return document


def clear_sky_bin(document: Document) -> Document:
    """Remove the path of a SkyPilot runtime that is gone; the controller's owner stays."""
    sky = _section(document, "skypilot")
    if sky is not None:
        sky.pop("sky_bin", None)
        drop_empty(document, "skypilot")
    return document


def drop_agent(document: Document, alias: str, name: str) -> Document:
    """Remove one agent from a stanza."""
    stanza = _section(document, "projects", alias)
    agents = _section(document, "projects", alias, "agents")
    if stanza is not None and agents is not None:
        agents.pop(name, None)
        drop_empty(stanza, "agents")
    return document


def drop_bucket(document: Document, project_id: str, bucket: str) -> Document:
    """Remove what opens a bucket, and the Terraform backend in it, from every stanza of a project."""
    for alias in _others(document, project_id):
        stanza = _section(document, "projects", alias)
        if stanza is None:
            continue
        backend = _section(document, "projects", alias, "terraform_state")
        if backend is not None and bucket_of(backend) == bucket:
            del stanza["terraform_state"]
        for name in _STANZA_STORAGE:
            block = _section(document, "projects", alias, name)
            if block is not None and bucket_of(block) == bucket:
                strip_storage(stanza, name)
    return document


def put_marker(document: Document, alias: str, observation: Mapping[str, object]) -> Document:
    """Merge an observation into a stanza's storage access marker. An alias without a stanza has no place for one: nothing changes."""
    stanza = _section(document, "projects", alias)
    if stanza is not None:
        stanza[MARKER] = merged_marker(_section(document, "projects", alias, MARKER) or {}, observation)
    return document


def clear_marker(
    document: Document, alias: str, gone: Collection[str], still_owned: Collection[str]
) -> Document:
    """Take ids that are proven absent out of a marker; it goes when neither it nor another record names anything else."""
    stanza = _section(document, "projects", alias)
    marker = _section(document, "projects", alias, MARKER)
    if stanza is not None and marker is not None:
        left = reduced_marker(marker, gone, still_owned)
        if left:
            stanza[MARKER] = left
        else:
            del stanza[MARKER]
    return document
