"""Errors of the API, as the Status objects that they are on the wire."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from engine.simulator.kubernetes.kinds import Doc, Kind

REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict",
    410: "Expired", 415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class Failed(Exception):
    """A request that is refused, with what its Status says. `reason` is the usual one of the code when not given."""

    def __init__(
        self,
        code: int,
        message: str,
        details: Doc | None = None,
        *,
        reason: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.details, self.headers = code, message, details, headers
        self.reason = REASONS.get(code, "InternalError") if reason is None else reason

    def answer(self) -> web.Response:
        body: Doc = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message, "code": self.code,
        }  # fmt: skip
        body |= {"reason": self.reason} if self.reason else {}
        body |= {"details": self.details} if self.details else {}
        return web.json_response(body, status=self.code, headers=self.headers)


def succeeded(code: int, details: Doc | None = None) -> web.Response:
    body: Doc = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    return web.json_response(body | ({"details": details} if details else {}), status=code)


def not_found(kind: Kind, name: str) -> Failed:
    return Failed(404, f'{kind.qualified} "{name}" not found', _details(kind, name))


def exists(kind: Kind, name: str) -> Failed:
    message = f'{kind.qualified} "{name}" already exists'
    return Failed(409, message, _details(kind, name), reason="AlreadyExists")


def conflict(kind: Kind, name: str, why: str) -> Failed:
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return Failed(409, message, _details(kind, name))


def forbidden(user: str, verb: str, kind: Kind, subresource: str, namespace: str, name: str) -> Failed:
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    what = f'{kind.qualified} "{name}"' if name else kind.qualified
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = f'{what} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{kind.group}" {where}'
    return Failed(403, message, _details(kind, name))


def unknown_resource() -> Failed:
    return Failed(404, "the server could not find the requested resource")


def _details(kind: Kind, name: str) -> Doc:
    rows = {"kind": kind.plural, "group": kind.group, "name": name}
    return {k: v for k, v in rows.items() if v}
