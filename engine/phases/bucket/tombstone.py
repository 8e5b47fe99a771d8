"""What outlives a bucket's keys: the ids of the account behind them, in the project's marker. Never a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.home.marker import is_access_key_id

if TYPE_CHECKING:
    from engine.home.records import Records


def tombstone(records: Records, bucket: str, now: str) -> dict[str, object] | None:
    """The observation to merge into the marker before the bucket is deleted; None when no record names an account.

    A marker without an account could never be settled by a proof, and would hold the alias for ever.
    """
    candidates = records.storage_candidates
    proven = records.storage_proofs
    best = (proven or candidates)[:1]
    if not best:
        return None
    account, setup = best[0], records.setup
    ownership = "npa-recovery-attested" if account.attested else "npa" if account.owned else "unverified"
    keys = {k for c in candidates for k in c.access_key_ids if is_access_key_id(k)}
    return {
        "status": "present_owned" if account.owned else "present_unverified_ownership",
        "ownership": ownership,
        "ownership_state": "owned" if account.owned else "pending-verification",
        "project_id": records.project_id,
        "tenant_id": records.tenant_id,
        "service_account_id": account.service_account_id,
        "service_account_name": account.service_account_name,
        "candidate_service_account_ids": sorted({c.service_account_id for c in (proven or candidates)}),
        "access_key_ids": sorted(keys),
        "bucket_name": bucket,
        "bucket_cleanup_state": "pending",
        "creation_outcome": setup.status if setup else "",
        "creation_phase": setup.phase if setup else "",
        "creation_attempt_id": setup.attempt_id if setup else "",
        "detail": "creation provenance preserved",
        "updated_at": now,
    }


def completed(now: str) -> dict[str, object]:
    """The observation once the bucket is proven gone and its keys are removed."""
    return {"bucket_cleanup_state": "complete", "bucket_cleanup_completed_at": now, "updated_at": now}
