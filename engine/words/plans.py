"""What is to be done, to what, and why it is ours: the value that is shown, consented to, recorded and replayed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from engine.words.identity import Identity
from engine.words.presence import Ref


class Evidence(StrEnum):
    """What can prove that a thing is ours. A name never can."""

    CREATE_RESPONSE = "create_response"
    SETUP_JOURNAL = "setup_journal"
    OPERATION_LABEL = "operation_label"
    ATTESTATION = "attestation"
    PART_OF = "part_of"
    """It belongs to a proven thing and goes with it: a bucket's object, a cluster's node, a local record."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Ownership:
    """Why a part is ours: the kind of evidence, the record that holds it and the field there."""

    evidence: Evidence = Evidence.NONE
    record: str = ""
    field: str = ""

    def __bool__(self) -> bool:
        return self.evidence is not Evidence.NONE


NOT_PROVEN = Ownership()


@dataclass(frozen=True, slots=True)
class Part:
    """One id of a target, with the proof that it is ours."""

    ref: Ref
    name: str
    owned: Ownership = NOT_PROVEN


@dataclass(frozen=True, slots=True)
class Target:
    """The unit of consent, guard, parallelism, receipt and resume.

    `key` is `PHASE/ID`, the same in journal, receipt, consent and console. `detail` holds the facts from records that the
    phase needs to find and name the thing (a context, a bucket's name, a Terraform folder): no prose, no times, no secrets.
    """

    key: str
    name: str
    parts: tuple[Part, ...]
    detail: Mapping[str, str] = field(default_factory=dict)

    @property
    def phase(self) -> str:
        return self.key.partition("/")[0]

    @property
    def id(self) -> str:
        return self.key.partition("/")[2]


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase of a plan. `unread` names records that could not be read: they rule out `completed`."""

    phase: str
    targets: tuple[Target, ...] = ()
    wants: str = "absent"
    options: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """An ordered teardown of one project."""

    identity: Identity
    phases: tuple[PhasePlan, ...]

    @property
    def digest(self) -> str:
        """16 hex digits over intent alone: identity, ids, proofs, order, options. Prose, times and prices are not in it."""
        intent = {
            "project": [self.identity.project_id, self.identity.tenant_id, self.identity.alias],
            "phases": [
                [
                    p.phase,
                    p.wants,
                    sorted(p.options.items()),
                    [
                        [
                            t.key,
                            sorted(t.detail.items()),
                            [
                                [q.ref.kind, q.ref.id, q.owned.evidence, q.owned.record, q.owned.field]
                                for q in t.parts
                            ],
                        ]
                        for t in p.targets
                    ],
                    list(p.unread),
                ]
                for p in self.phases
            ],
        }
        return hashlib.sha256(json.dumps(intent, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[
            :16
        ]

    def phase(self, name: str) -> PhasePlan | None:
        return next((p for p in self.phases if p.phase == name), None)

    def number(self, name: str) -> int:
        """The phase's number, from 1, fixed for this plan; 0 when it is not part of it."""
        return next((n for n, p in enumerate(self.phases, 1) if p.phase == name), 0)

    def targets(self) -> Iterator[tuple[PhasePlan, Target]]:
        for phase in self.phases:
            for target in phase.targets:
                yield phase, target

    def target(self, key: str) -> Target | None:
        return next((t for _, t in self.targets() if t.key == key), None)
