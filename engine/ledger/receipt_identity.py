"""The identity block of a receipt: every immutable id of the plan, so that the teardown can go on after the alias was forgotten."""

from __future__ import annotations

from typing import Any

from engine.words.identity import Identity
from engine.words.plans import Plan, Target

Document = dict[str, Any]


def receipt_identity(identity: Identity, plan: Plan) -> Document:
    """Ids only; no secret has a place here. Collections are those that the existing CLI knows."""
    return {
        "project_alias": identity.alias,
        "project_id": identity.project_id,
        "parent_id": identity.project_id,
        "tenant_id": identity.tenant_id,
        "region": identity.region,
        "agents": [_agent(identity, t) for t in _targets(plan, "agents")],
        "clusters": [_cluster(identity, t) for t in _targets(plan, "clusters")],
        "workflows": [
            {"run_id": t.detail["run_id"]} for t in _targets(plan, "workflows") if t.detail.get("run_id")
        ],
        "storage_iam": {"generations": [_generation(t) for t in _targets(plan, "storage_iam")]},
    }


def _targets(plan: Plan, phase: str) -> tuple[Target, ...]:
    here = plan.phase(phase)
    return here.targets if here else ()


def _ids(target: Target, kind: str) -> list[str]:
    return [p.ref.id for p in target.parts if p.ref.kind == kind]


def _agent(identity: Identity, target: Target) -> Document:
    return {
        "agent_name": target.detail.get("agent_name", target.name),
        "instance_id": next(iter(_ids(target, "instance")), ""),
        "project_id": identity.project_id,
        "tenant_id": identity.tenant_id,
        "region": identity.region,
    }


def _cluster(identity: Identity, target: Target) -> Document:
    context = target.detail.get("context", "")
    return {
        "context": context,
        "controller_context": context,
        "cluster_id": target.id,
        "cluster_name": target.name,
        "project_id": identity.project_id,
        "region": identity.region,
    }


def _generation(target: Target) -> Document:
    owned = all(p.owned for p in target.parts)
    return {
        "service_account_id": target.id,
        "service_account_name": target.name,
        "ownership": "npa" if owned else "unverified",
        "iam_key_ids": _ids(target, "access_key"),
    }
