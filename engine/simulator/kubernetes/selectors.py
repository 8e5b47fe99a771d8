"""Which objects a selector means: of labels in a query, of labels in an object, of fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.simulator.kubernetes.kinds import Doc, Kind
from engine.simulator.kubernetes.status import Failed

FIELDS = {
    "pods": frozenset({"spec.nodeName", "status.phase", "spec.restartPolicy", "spec.serviceAccountName"}),
    "nodes": frozenset({"spec.unschedulable"}),
    "services": frozenset({"spec.type", "spec.clusterIP"}),
    "namespaces": frozenset({"status.phase"}),
}
"""Fields that can be selected by, beside name and namespace."""


class FieldTerm(NamedTuple):
    """A field, whether it has to equal the value or not, and the value."""

    path: str
    equal: bool
    value: str


def by_labels(labels: Mapping[str, str], selector: str) -> bool:
    """Terms `a=b`, `a==b`, `a!=b`, `a in (b, c)`, `a notin (b)`, `a`, `!a`, all of which have to hold."""
    return all(_term(labels, t.strip()) for t in re.split(r",(?![^(]*\))", selector) if t.strip())


def _term(labels: Mapping[str, str], term: str) -> bool:
    if found := re.fullmatch(r"(\S+)\s+(in|notin)\s+\((.*)\)", term):
        inside = labels.get(found[1]) in [v.strip() for v in found[3].split(",")]
        return inside == (found[2] == "in")
    if "!=" in term:
        key, _, value = term.partition("!=")
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, _, value = term.replace("==", "=").partition("=")
        return labels.get(key.strip()) == value.strip()
    return term.removeprefix("!").strip() not in labels if term.startswith("!") else term in labels


def by_selector(labels: Mapping[str, str], selector: Doc | None) -> bool:
    """A LabelSelector of policy/v1: none selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(labels, e) for e in selector.get("matchExpressions") or [])


def _expression(labels: Mapping[str, str], expression: Doc) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def field_terms(kind: Kind, selector: str) -> list[FieldTerm]:
    """Terms `a.b=c`, `a.b==c` and `a.b!=c`. Raises `Failed` for a field that cannot be selected by."""
    terms = []
    for term in (t.strip() for t in selector.split(",") if t.strip()):
        path, operator, value = term.replace("==", "=").partition("!=" if "!=" in term else "=")
        if path not in ("metadata.name", "metadata.namespace", *FIELDS.get(kind.plural, ())):
            raise Failed(400, f'Unable to find "{kind.plural}": field label not supported: {path}')
        terms.append(FieldTerm(path, operator == "=", value))
    return terms


def by_fields(doc: Doc, terms: Sequence[FieldTerm]) -> bool:
    """All of the terms hold."""
    return all((_field(doc, t.path) == t.value) == t.equal for t in terms)


def _field(doc: Doc, path: str) -> str:
    here: object = doc
    for part in path.split("."):
        here = here.get(part) if isinstance(here, dict) else None
    if isinstance(here, bool):
        return str(here).lower()
    return "" if here is None else str(here)
