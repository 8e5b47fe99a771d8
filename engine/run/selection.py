"""From what was given on the command line to one identity: flags, then the receipt, then the configuration, each filling gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.home.project_index import ProjectIndex
from engine.home.records import Records, gather
from engine.home.roots import Roots
from engine.words.identity import Identity, Merged, merge
from engine.words.reasons import Reason, Refusal, Refused

EXPLICIT, LIVE = "explicit_exact_arguments", "live_configuration"


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for. `project` is an alias or a project id; the rest are exact selectors."""

    project: str = ""
    receipt: str = ""
    project_id: str = ""
    tenant_id: str = ""
    region: str = ""


def resolve(roots: Roots, index: ProjectIndex, wanted: Selection) -> tuple[Identity, Records]:
    """The one project that is meant, and its records. Raises `Refused` before anything is called."""
    alias, id = _named(index, wanted)
    forgotten = bool(alias) and alias not in index.configured
    records = gather(roots, id, alias)
    receipt = wanted.receipt or (_receipt_of(records) if forgotten or not records.stanzas else "")
    merged = _merged(wanted, alias, id, receipt, records)
    if merged.conflicts:
        field, values = merged.conflicts[0]
        told = " and ".join(f"{value} ({source})" for source, value in values.items())
        raise Refused(
            Refusal(
                Reason.IDENTITY_CONFLICT,
                f"two values for {field}: {told}. Nothing was called",
                "npa cleanup --list-receipts",
            )
        )
    identity = Identity(
        project_id=id,
        alias=alias,
        tenant_id=merged.values.get("tenant_id", ""),
        region=merged.values.get("region", ""),
        source=merged.source,
        sources=merged.sources,
        receipt_id=receipt,
        forgotten=forgotten,
    )
    return identity, records


def _merged(wanted: Selection, alias: str, id: str, receipt: str, records: Records) -> Merged:
    explicit = {"project_id": wanted.project_id, "tenant_id": wanted.tenant_id, "region": wanted.region}
    live: dict[str, str] = {}
    for stanza in records.stanzas:
        if not alias or stanza.alias == alias:
            live = {"project_id": stanza.project_id, "tenant_id": stanza.tenant_id, "region": stanza.region}
            break
    recorded = {"project_id": id, "tenant_id": records.tenant_id, "region": records.region}
    from_receipt: Mapping[str, str] = {}
    for found in records.receipts:
        if receipt and found.receipt_id == receipt:
            from_receipt = {
                k: v
                for k in ("project_id", "tenant_id", "region")
                if isinstance(v := found.identity.get(k), str)
            }
    return merge(
        (EXPLICIT, explicit), (f"receipt:{receipt}", from_receipt), (LIVE, live), ("records", recorded)
    )


def _named(index: ProjectIndex, wanted: Selection) -> tuple[str, str]:
    """(alias, project id). A configured alias means what the configuration says; a forgotten one what its receipts say."""
    name = wanted.project
    if not name and not wanted.project_id:
        name = index.sole
        if not name:
            known = ", ".join(sorted(index.configured)) or "none"
            raise Refused(
                Refusal(
                    Reason.IDENTITY_INSUFFICIENT,
                    f"say which project is meant; configured: {known}",
                    "npa destroy --project ALIAS --all",
                )
            )
    _check_readable(index)
    if not name or name in index.known_ids:
        id = wanted.project_id or name
        if name and name != id:
            raise Refused(
                Refusal(
                    Reason.IDENTITY_CONFLICT,
                    f"--project says {name} and --project-id says {id}",
                    f"npa destroy --project {id} --all",
                )
            )
        if id not in index.known_ids:
            raise Refused(
                Refusal(
                    Reason.UNKNOWN_ID, f"no record of this machine names {id}", "npa cleanup --list-receipts"
                )
            )
        return next(iter(index.aliases_of(id)), ""), id
    ids = (index.configured[name],) if name in index.configured else index.ids_of(name)
    if name not in index.configured and not ids:
        known = ", ".join(sorted(index.configured)) or "none"
        raise Refused(
            Refusal(
                Reason.UNKNOWN_ALIAS,
                f"no project is called {name!r} here; configured: {known}",
                "npa cleanup --list-receipts",
            )
        )
    if ids == ("",):
        raise Refused(
            Refusal(
                Reason.IDENTITY_INSUFFICIENT,
                f"the configuration of {name!r} has no project_id; give it",
                "npa destroy --project-id ID --all",
            )
        )
    if len(ids) > 1:
        raise Refused(
            Refusal(
                Reason.IDENTITY_AMBIGUOUS,
                f"{name!r} was the alias of {' and of '.join(ids)}; say which one by its id",
                f"npa destroy --project {ids[0]} --all",
            )
        )
    return name, ids[0]


def _check_readable(index: ProjectIndex) -> None:
    """While the configuration cannot be read, no alias means anything."""
    for problem in index.problems:
        if problem.kind == "config" and not problem.field:
            raise Refused(Refusal(Reason.RECORD_UNREADABLE, str(problem), ""))


def _receipt_of(records: Records) -> str:
    named = [r for r in records.receipts if r.project_id == records.project_id]
    newest = max(named, key=lambda r: r.updated_at, default=None)
    return newest.receipt_id if newest else ""
