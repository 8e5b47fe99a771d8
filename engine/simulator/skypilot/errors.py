"""Errors as the real server serialises them: type and message in plain JSON, and beside them a pickle that the SDK raises from."""

from __future__ import annotations

import base64
import pickle

NONE = base64.b64encode(pickle.dumps(None, 4)).decode()
"""A pickled None, which stands where the real server has objects of its own."""
_PLACE = "the-status-of-the-cluster"
_ENUM = b"csky.utils.status_lib\nClusterStatus\n"


class SkyError(Exception):
    """What a request fails with. `kind`: name of a class in `sky.exceptions`, or of a builtin."""

    def __init__(
        self,
        kind: str,
        message: str,
        attributes: dict[str, str | None] | None = None,
        *,
        status: str | None = None,
    ) -> None:
        super().__init__(message)
        plain = {
            "type": kind,
            "message": message,
            "args": (message,),
            "attributes": dict(attributes or {}) | ({"cluster_status": _PLACE} if status else {}),
            "stacktrace": None,
        }
        pickled = pickle.dumps(plain, 2)
        if status:
            # A member of an enum that is not importable here: called by name where it is unpickled.
            pickled = pickled.replace(_string(_PLACE), _ENUM + _string(status) + b"\x85R")
        self.document = {"object": base64.b64encode(pickled).decode(), "type": kind, "message": message}


def not_up(message: str, status: str | None) -> SkyError:
    """No controller that could be asked; without a status there is none at all."""
    known: dict[str, str | None] = {"handle": None} if status else {"cluster_status": None, "handle": None}
    return SkyError("ClusterNotUpError", message, known, status=status)


def _string(text: str) -> bytes:
    """A string in pickle protocol 2."""
    data = text.encode()
    return b"X" + len(data).to_bytes(4, "little") + data
