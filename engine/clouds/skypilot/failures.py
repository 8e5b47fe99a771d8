"""What a failure of SkyPilot means, by the name of its exception."""

from __future__ import annotations

from collections.abc import Mapping

from engine.words.presence import Cause
from engine.words.redact import redact
from engine.words.trouble import Trouble

STUCK = "Stuck"
"""What the worker calls a call that hangs in the `sky` client itself, so that its thread is lost."""

CAUSES: Mapping[str, Cause] = {
    "ApiServerConnectionError": Cause.UNREACHABLE,
    "ServerTemporarilyUnavailableError": Cause.UNREACHABLE,
    "RequestInterruptedError": Cause.UNREACHABLE,
    "RequestCancelled": Cause.UNREACHABLE,
    "ConnectionError": Cause.UNREACHABLE,
    "SSLError": Cause.UNREACHABLE,
    "ProxyError": Cause.UNREACHABLE,
    "ChunkedEncodingError": Cause.UNREACHABLE,
    "ClusterNotUpError": Cause.UNREACHABLE,
    "KubeAPIUnreachableError": Cause.UNREACHABLE,
    "ClusterStatusFetchingError": Cause.UNREACHABLE,
    "FetchClusterInfoError": Cause.UNREACHABLE,
    "SkyletUnavailableError": Cause.UNREACHABLE,
    "NetworkError": Cause.UNREACHABLE,
    "RuntimeError": Cause.UNREACHABLE,
    "ApiServerAuthenticationError": Cause.UNAUTHENTICATED,
    "InvalidCloudCredentials": Cause.UNAUTHENTICATED,
    "CloudUserIdentityError": Cause.UNAUTHENTICATED,
    "PermissionDeniedError": Cause.DENIED,
    "NoWorkspaceAccessError": Cause.DENIED,
    "UserRequestRejectedByPolicy": Cause.DENIED,
    "RestfulPolicyError": Cause.DENIED,
    "TimeoutError": Cause.TIMED_OUT,
    STUCK: Cause.TIMED_OUT,
    "Timeout": Cause.TIMED_OUT,
    "ReadTimeout": Cause.TIMED_OUT,
    "ConnectTimeout": Cause.TIMED_OUT,
    "ConcurrentWorkerExhaustedError": Cause.THROTTLED,
    "ExecutionPoolFullError": Cause.THROTTLED,
    "ImportError": Cause.NO_CLIENT,
    "ModuleNotFoundError": Cause.NO_CLIENT,
    "AttributeError": Cause.NO_CLIENT,
    "APIVersionMismatchError": Cause.NO_CLIENT,
    "APINotSupportedError": Cause.NO_CLIENT,
    "SkyletMethodNotImplementedError": Cause.NO_CLIENT,
    "ClusterOwnerIdentityMismatchError": Cause.WRONG_SCOPE,
    "WorkspaceAmbiguousError": Cause.WRONG_SCOPE,
    "NotSupportedError": Cause.CONFLICT,
    "TypeError": Cause.MALFORMED,
    "ValueError": Cause.MALFORMED,
    "JSONDecodeError": Cause.MALFORMED,
    "InvalidSkyPilotConfigError": Cause.MALFORMED,
}
"""Cause of each exception of `sky`, `requests` and Python that is known. Any other is UNREACHABLE: the far side failed, and
nothing was learnt about the things asked for."""

HTTP: Mapping[int, Cause] = {
    400: Cause.MALFORMED,
    401: Cause.UNAUTHENTICATED,
    403: Cause.DENIED,
    404: Cause.MALFORMED,
    408: Cause.TIMED_OUT,
    429: Cause.THROTTLED,
    504: Cause.TIMED_OUT,
}

CLOUDS: Mapping[str, Cause] = {
    "urllib3/MaxRetryError": Cause.UNREACHABLE,
    "kubernetes/ApiException": Cause.DENIED,
}
"""Cause of a CloudError by whose it was and what. A Kubernetes refusal reaches us after the server's own retries."""


class SkyTrouble(Trouble):
    """A `Trouble` that still knows which exception it was.

    type            name of the exception
    controller_gone SkyPilot has no record of the jobs controller. A stopped one or one that does not answer is no such thing,
                    although SkyPilot says the same sentence about it
    """

    def __init__(self, cause: Cause, detail: str, request_id: str, type: str, controller_gone: bool) -> None:
        super().__init__(cause, detail, request_id)
        self.type = type
        self.controller_gone = controller_gone


def of_error(error: Mapping[str, object], what: str) -> SkyTrouble:
    """An error document of the worker."""
    name = str(error.get("type") or "")
    message = str(error.get("message") or "")
    http, cloud = error.get("http"), str(error.get("cloud") or "")
    if isinstance(http, int):
        cause = HTTP.get(http, Cause.UNREACHABLE)
    elif cloud:
        cause = CLOUDS.get(cloud, Cause.UNREACHABLE)
    else:
        cause = CAUSES.get(name, Cause.UNREACHABLE)
    return SkyTrouble(
        cause,
        redact(f"{what}: {name}: {message}" if message else f"{what}: {name}"),
        redact(str(error.get("request_id") or "")),
        name,
        name == "ClusterNotUpError" and "cluster_status" in error and error["cluster_status"] is None,
    )
