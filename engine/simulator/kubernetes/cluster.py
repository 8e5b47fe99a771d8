"""One cluster for those who run it: its API, and what the rest of a simulation does to it."""

from __future__ import annotations

from aiohttp import web

from engine.simulator.faults import Timetable
from engine.simulator.kubernetes.budgets import going
from engine.simulator.kubernetes.kinds import KINDS, PODS, SERVICES, Doc, Kind
from engine.simulator.kubernetes.server import Api
from engine.simulator.kubernetes.spec import KubernetesSpec, PodSpec
from engine.simulator.kubernetes.state import State
from engine.simulator.web import Served


class KubernetesCluster:
    """`tokens` are the bearer tokens that are accepted; a cluster that was stopped answers nothing any more."""

    def __init__(
        self, spec: KubernetesSpec, tokens: set[str], timetable: Timetable, time_scale: float
    ) -> None:
        # A copy of a spec with other fields was not validated when it was made.
        spec = KubernetesSpec.model_validate({name: getattr(spec, name) for name in type(spec).model_fields})
        self.stopped = False
        self._tokens = set(tokens)
        self._state = State(spec, time_scale)
        self._api = Api(self._state, self._tokens, spec.forbidden, timetable, lambda: not self.stopped)

    @property
    def log(self) -> list[Served]:
        """Every request, in order."""
        return self._api.log

    def app(self) -> web.Application:
        return self._api.app()

    def accept(self, token: str) -> None:
        """Take one more bearer token."""
        self._tokens.add(token)

    def stop(self) -> None:
        """The control plane is gone: connections are closed without an answer."""
        self.stopped = True

    def may(self, verb: str, resource: str) -> bool:
        """Whether callers may do that, such as `delete pods`."""
        return self._api.may(verb, resource)

    def add_pod(self, pod: PodSpec) -> Doc:
        """One more pod, as the API shows it."""
        return self._state.add_pod(pod)

    def find(self, labels: dict[str, str]) -> list[Doc]:
        """Pods with all of these labels, those that are terminating included."""
        return self._labelled(PODS, labels)

    def remove_pods(self, labels: dict[str, str]) -> None:
        """Delete the pods with all of these labels; they terminate for a while."""
        for pod in self._labelled(PODS, labels):
            self._state.delete(PODS, pod)

    def remove_services(self, labels: dict[str, str]) -> None:
        """Delete the services with all of these labels."""
        for service in self._labelled(SERVICES, labels):
            self._state.delete(SERVICES, service)

    def describe(self) -> dict[str, list[str] | bool]:
        """Objects by plural kind, as NAMESPACE/NAME; pods that are terminating; whether the cluster was stopped."""
        rows: dict[str, list[str] | bool] = {k.plural: [_path(d) for d in self._state.rows(k)] for k in KINDS}
        rows["terminating"] = [_path(p) for p in self._state.rows(PODS) if going(p)]
        return rows | {"stopped": self.stopped}

    def _labelled(self, kind: Kind, labels: dict[str, str]) -> list[Doc]:
        rows = self._state.rows(kind)
        return [d for d in rows if labels.items() <= (d["metadata"].get("labels") or {}).items()]


def _path(doc: Doc) -> str:
    return f"{doc['metadata'].get('namespace', '')}/{doc['metadata']['name']}".lstrip("/")
