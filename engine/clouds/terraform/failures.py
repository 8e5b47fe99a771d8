"""Why Terraform failed: a kind that a phase can act on, and a sentence that an operator can."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

_DETAIL = 1200


class Kind(StrEnum):
    """What kind of failure it is, beyond its cause."""

    STATE_LOCKED = "state_locked"
    PROVIDER_CHECKSUM = "provider_checksum"
    LOCK_FILE = "lock_file"
    STALE_KUBE_PROVIDER = "stale_kube_provider_config"
    BACKEND_MISSING = "backend_missing"
    BACKEND_LOGIN = "backend_authentication"
    BACKEND_UNREACHABLE = "backend_endpoint"
    BACKEND = "backend"
    STATE_NOT_SAVED = "state_not_saved"
    PROTECTED = "protected"
    PROVISIONER = "provisioner"
    IN_USE = "blocked_by_foreign"
    INTERRUPTED = "interrupted"
    TIMED_OUT = "timed_out"
    SCRATCH = "scratch"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LockInfo:
    """Who holds the state, as Terraform's lock says. We show it; we never unlock by ourselves."""

    id: str
    who: str
    operation: str
    created: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One complaint of Terraform, as its own `-json` output gives it."""

    severity: str
    summary: str
    detail: str
    address: str = ""


class TerraformTrouble(Trouble):
    """A failure of Terraform. `lock` is set for STATE_LOCKED, `address` where one resource is to blame."""

    def __init__(
        self, kind: Kind, cause: Cause, detail: str, *, address: str = "", lock: LockInfo | None = None
    ) -> None:
        super().__init__(cause, redact(detail[: 2 * _DETAIL], _DETAIL))
        self.kind, self.address, self.lock = kind, address, lock


def checksum_advice(module_dir: str, platform: str) -> str:
    return (
        "the downloaded provider does not match the checksums tracked in .terraform.lock.hcl. Bypassing this check is"
        " forbidden, and the lock file is unchanged. Verify the provider's source and mirror, run `terraform"
        f" -chdir={module_dir} providers lock -platform={platform}` in a clean, reviewed checkout, and inspect the diff"
    )


_Rule = tuple[Kind, Cause, Callable[[str], object]]


def _says(*patterns: str) -> Callable[[str], object]:
    return re.compile("|".join(patterns), re.IGNORECASE).search


# Terraform gives its failures no codes: summary and detail are all there is, so they are matched here, and only here.
# The first rule that fits any complaint decides; more telling ones come first.
_RULES: tuple[_Rule, ...] = (
    (Kind.STATE_LOCKED, Cause.CONFLICT, _says("error acquiring the state lock")),
    (
        Kind.PROVIDER_CHECKSUM,
        Cause.CONFLICT,
        _says("match any of the checksums", "checksum list has no", "checksum mismatch", "checksums previously recorded"),
    ),
    (
        Kind.LOCK_FILE,
        Cause.CONFLICT,
        _says("provider dependency changes detected", "inconsistent dependency lock file", "required plugins are not installed"),
    ),
    (Kind.STATE_NOT_SAVED, Cause.CONFLICT, _says("failed to (save|persist) state", r"errored\.tfstate", "error saving state")),
    (
        Kind.STALE_KUBE_PROVIDER,
        Cause.CONFLICT,
        # A Kubernetes provider whose cluster is not in the state falls back to this machine's port 80 (or 8080).
        _says(
            r"(dial tcp|connect to) (127\.0\.0\.1|\[::1\]|localhost):(80|8080)\b",
            r"https?://(127\.0\.0\.1|\[::1\]|localhost)(:80|:8080)?/(api|version|apis)",
            "invalid configuration: no configuration has been provided",
        ),
    ),
    (
        Kind.BACKEND_MISSING,
        Cause.CONFLICT,
        _says(r"S3 bucket \"[^\"]*\" does not exist", "NoSuchBucket"),
    ),
    (
        Kind.BACKEND_LOGIN,
        Cause.UNAUTHENTICATED,
        _says(
            "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "No valid credential sources found",
            "failed to refresh cached credentials", "RequestTimeTooSkewed",
        ),
    ),
    (Kind.PROTECTED, Cause.CONFLICT, _says("instance cannot be destroyed", "prevent_destroy", "deletion.?protection")),
    (Kind.PROVISIONER, Cause.CONFLICT, _says("provisioner error")),
)  # fmt: skip
_BACKEND = _says(
    r"\bbackend\b",
    "existing workspaces",
    "operation error s3",
    "remote state",
    "error loading state",
    "state data in s3",
)
# Codes of the provider's API, which Terraform prints inside its prose.
_CAUSES: tuple[tuple[Cause, Kind, Callable[[str], object]], ...] = (
    (Cause.UNAUTHENTICATED, Kind.FAILED, _says(r"\bunauthenticated\b", r"\b401\b.*unauthorized")),
    (Cause.DENIED, Kind.FAILED, _says(r"\bpermission_?denied\b", r"\baccess ?denied\b", r"StatusCode: 403")),
    (Cause.THROTTLED, Kind.FAILED, _says(r"\bresource_?exhausted\b", "TooManyRequests", r"\bSlowDown\b")),
    (Cause.CONFLICT, Kind.IN_USE, _says(r"\bfailed_?precondition\b", r"\bin use by\b", r"\bStatusCode: 409")),
    (
        Cause.UNREACHABLE,
        Kind.FAILED,
        _says("connection refused", "no such host", "connection reset", "network is unreachable", r"code = unavailable"),
    ),
    (Cause.TIMED_OUT, Kind.FAILED, _says("context deadline exceeded", r"\bdeadline_?exceeded\b", "i/o timeout")),
)  # fmt: skip


def classify(
    complaints: Sequence[Diagnostic], *, module_dir: str, platform: str, fallback: str
) -> TerraformTrouble:
    """The failure that these complaints tell of. `fallback` is what else was said, for a failure without any."""
    errors = [d for d in complaints if d.severity == "error"]
    for kind, cause, fits in _RULES:
        for d in errors:
            if fits(f"{d.summary}\n{d.detail}"):
                return _telling(kind, cause, d, module_dir, platform)
    text = "\n".join(f"{d.summary}\n{d.detail}" for d in errors)
    cause, kind = next(((c, k) for c, k, fits in _CAUSES if fits(text)), (Cause.CONFLICT, Kind.FAILED))
    if _BACKEND(text):
        kind = {Cause.UNREACHABLE: Kind.BACKEND_UNREACHABLE, Cause.TIMED_OUT: Kind.BACKEND_UNREACHABLE}.get(
            cause, Kind.BACKEND_LOGIN if cause in (Cause.UNAUTHENTICATED, Cause.DENIED) else Kind.BACKEND
        )
    address = next((d.address for d in errors if d.address), "")
    said = "; ".join(_sentence(d) for d in errors[:3]) or fallback or "Terraform failed without saying why"
    return TerraformTrouble(kind, cause, said, address=address)


def _telling(kind: Kind, cause: Cause, d: Diagnostic, module_dir: str, platform: str) -> TerraformTrouble:
    lock = lock_info(d.detail) if kind is Kind.STATE_LOCKED else None
    if lock is not None:
        said = (
            f"the state is locked by {lock.who or 'an unknown holder'} since {lock.created or 'an unknown time'}"
            f" (lock {lock.id}, {lock.operation}). If that run is certainly over:"
            f" terraform -chdir={module_dir} force-unlock {lock.id}"
        )
    elif kind is Kind.PROVIDER_CHECKSUM:
        said = f"{checksum_advice(module_dir, platform)}. Terraform says: {_sentence(d)}"
    elif kind is Kind.STALE_KUBE_PROVIDER:
        said = (
            "the Kubernetes provider of the module dialled this machine, because the cluster that configures it is no longer in the"
            f" state: {_sentence(d)}. Remove the Kubernetes objects from the state (terraform -chdir={module_dir} state list, state rm)"
        )
    else:
        said = _sentence(d)
    return TerraformTrouble(kind, cause, said, address=d.address, lock=lock)


def _sentence(d: Diagnostic) -> str:
    where = f"{d.address}: " if d.address else ""
    return f"{where}{d.summary}{': ' if d.detail else ''}{' '.join(d.detail.split())[:600]}"


def lock_info(detail: str) -> LockInfo:
    """The block that Terraform prints about a lock, field by field; a missing field is empty."""
    found = dict(re.findall(r"^\s*(ID|Who|Operation|Created):[ \t]*(.*?)\s*$", detail, re.MULTILINE))
    return LockInfo(
        found.get("ID", ""), found.get("Who", ""), found.get("Operation", ""), found.get("Created", "")
    )


def from_text(stderr: str) -> list[Diagnostic]:
    """The complaints in what Terraform prints for people, for the commands that have no `-json`."""
    plain = re.sub(r"[╷│╵]", "", stderr)
    parts: Iterable[str] = re.split(r"(?m)^\s*Error: ", plain)[1:]
    return [
        Diagnostic("error", summary.strip(), detail.strip())
        for summary, _, detail in (part.partition("\n") for part in parts)
    ]
