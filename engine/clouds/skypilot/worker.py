"""The SkyPilot client as a process of its own: JSON lines in, JSON lines out. The only module that imports `sky`.

Run by path, with the operator's own SkyPilot interpreter or with ours: standard library only, Python 3.9 or later, nothing of
this program imported. It is apart because `sky` takes a second and 160 MB to import, writes to standard output, keeps its
endpoint for the life of the process, and waits without deadlines.

In      {"id", "op", "args", "seconds"}                    "seconds": how long the operation may take
Out     {"hello": {"version", "python", "endpoint"}}       once, when `sky` is imported
        {"unusable": {"type", "message"}}                  once instead: there is no usable `sky`; the process ends
        {"id", "rows": [...]}                              a part of an answer's rows, any number of times
        {"id", "done": {...}}                              its end, or
        {"id", "error": {"type", "message", "http", "cluster_status", "cloud", "request_id"}}
Ops     queue  clusters  cancel(job_ids)  down(cluster_name, purge)  refresh(cluster_name)

The end of standard input ends the process at once, whoever held the other end and however that died. What the API server was
asked for by then goes on there.
"""

from __future__ import annotations

import sys

# The folder of this file comes first on the path when it is run by path, and would shadow modules of the same names.
sys.path[:] = sys.path[1:] if sys.path and sys.path[0] == __file__.rpartition("/")[0] else sys.path

import base64  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pickle  # noqa: E402
import shutil  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from importlib import import_module, metadata  # noqa: E402
from importlib.util import find_spec  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

Document = dict[str, Any]

SUPPORTED = ((0, 12), (0, 14))
"""First and last version, without the patch level, whose client this speaks for."""

SCRATCH = "NPA_SKYPILOT_SCRATCH"
"""Variable that names a folder to remove at the end."""

ROWS = 500
"""Rows per line."""

JOB_FIELDS = (
    "job_id", "task_id", "job_name", "task_name", "status", "workspace", "user_name", "user_hash", "submitted_at",
)  # fmt: skip
CLUSTER_FIELDS = (
    "name", "status", "cloud", "region", "cluster_name_on_cloud", "status_updated_at", "user_hash", "user_name", "workspace",
)  # fmt: skip

STUCK = "Stuck"
"""Type of the error that is told for a call that hangs in the client itself."""

_CONNECT = 5.0
_POLL = 60.0
"""Seconds of one wait for a result. Proxies cut longer ones; the result itself waits at the server."""


class Gone(Exception):
    """The request failed at the API server. Carries its error as a document."""

    def __init__(self, error: Document) -> None:
        super().__init__(error.get("message", ""))
        self.error = error


class Inert:
    """What a class or function of a pickle becomes: it takes everything and does nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.args = args

    def __setstate__(self, state: object) -> None:
        self.args = (*self.args, state)

    def append(self, item: object) -> None: ...

    def extend(self, items: object) -> None: ...

    def __setitem__(self, key: object, value: object) -> None: ...


class InertUnpickler(pickle.Unpickler):
    """Reads the plain values of a pickle without running any code that it names: errors come from a server as pickles."""

    def find_class(self, module: str, name: str) -> type:
        return type(name, (Inert,), {})


def attributes_of(pickled: object) -> Document:
    """The attributes of a serialized exception, or nothing. Enum members come as `Inert`."""
    try:
        document = InertUnpickler(io.BytesIO(base64.b64decode(str(pickled)))).load()
    except Exception:
        return {}
    found = document.get("attributes") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def enum_text(value: object) -> object:
    """The name or value of a pickled enum member: the last text that it was built from."""
    if isinstance(value, Inert):
        return next((arg for arg in reversed(value.args) if isinstance(arg, str)), "?")
    return value if value is None or isinstance(value, str) else str(value)


def describe(error: BaseException) -> Document:
    """An exception as a document. `cluster_status` is only there when the exception has one, and may be null."""
    if isinstance(error, Gone):
        return error.error
    described: Document = {"type": type(error).__name__, "message": str(error)}
    http = getattr(getattr(error, "response", None), "status_code", None)
    if http is not None:
        described["http"] = http
    if hasattr(error, "cluster_status"):
        status = error.cluster_status
        described["cluster_status"] = None if status is None else str(getattr(status, "value", status))
    return described


def of_payload(payload: Document) -> Document:
    """The error of a finished request as a document; empty when there is none. Its pickle is read without running it."""
    text = payload.get("error") or "null"
    error = json.loads(text) if isinstance(text, str) else text
    if not error:
        return {}
    if not isinstance(error, dict):
        return {"type": "RuntimeError", "message": str(error)}
    attributes = attributes_of(error.get("object"))
    described: Document = {"type": str(error.get("type")), "message": str(error.get("message"))}
    if "cluster_status" in attributes:
        described["cluster_status"] = enum_text(attributes["cluster_status"])
    if attributes.get("cloud_provider"):
        described["cloud"] = f"{attributes.get('cloud_provider')}/{attributes.get('error_type')}"
    return described


class Sky:
    """Operations by name. Submitting is the SDK's work; results are read as the JSON that the server sent, because the SDK
    unpickles them, waits for ever, and gives up a whole queue over one word that it does not know."""

    def __init__(self) -> None:
        # By name, so that a type checker needs no SkyPilot.
        self.sky = import_module("sky")
        self.common = import_module("sky.server.common")
        self.lost = import_module("requests.exceptions")
        self.request = self.common.make_authenticated_request

    def queue(self, args: Document, end: float) -> Document:
        # `refresh` would start a stopped controller.
        kwargs: Document = {"refresh": False, "all_users": True, "fields": list(JOB_FIELDS)}
        found = self.result(self.sky.jobs.queue_v2(**kwargs), end)
        jobs = found.get("jobs") if isinstance(found, dict) else None
        if not isinstance(jobs, list):
            raise TypeError("the answer holds no list of jobs")
        return {"rows": [pick(job, JOB_FIELDS) for job in jobs], "total": found.get("total")}

    def clusters(self, args: Document, end: float) -> Document:
        return self._status(end, refresh=self.sky.StatusRefreshMode.NONE, all_users=True)

    def refresh(self, args: Document, end: float) -> Document:
        force = self.sky.StatusRefreshMode.FORCE
        return self._status(end, cluster_names=[args["cluster_name"]], refresh=force, all_users=True)

    def _status(self, end: float, **kwargs: object) -> Document:
        found = self.result(self.sky.status(**kwargs), end)
        if not isinstance(found, list):
            raise TypeError("the answer is no list of clusters")
        return {"rows": [pick(row, CLUSTER_FIELDS) for row in found]}

    def cancel(self, args: Document, end: float) -> Document:
        self.result(self.sky.jobs.cancel(job_ids=[int(id) for id in args["job_ids"]]), end)
        return {}

    def down(self, args: Document, end: float) -> Document:
        self.result(self.sky.down(args["cluster_name"], purge=bool(args.get("purge"))), end)
        return {}

    def result(self, request_id: object, end: float) -> Any:
        """Wait for a request's result. At the end of its time the request is cancelled at the server."""
        try:
            while True:
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the SkyPilot API server did not finish the request in time")
                try:
                    response = self.request(
                        "GET",
                        f"/api/get?request_id={request_id}",
                        retry=False,
                        timeout=(_CONNECT, min(_POLL, left)),
                    )
                except (self.lost.ReadTimeout, self.lost.ConnectionError):
                    time.sleep(min(0.5, max(0.0, end - time.monotonic())))
                    continue
                if response.status_code in (502, 504):
                    time.sleep(min(1.0, max(0.0, end - time.monotonic())))
                    continue
                return self._decoded(response, str(request_id))
        except TimeoutError:
            threading.Thread(target=self._abort, args=(str(request_id),), daemon=True).start()
            raise

    def _abort(self, request_id: str) -> None:
        try:
            self.sky.api_cancel([request_id], silent=True)
        except Exception:
            return  # the failure that led here is the one to tell

    def _decoded(self, response: Any, request_id: str) -> Any:
        body = response.json()
        payload = body.get("detail") if response.status_code == 500 and isinstance(body, dict) else body
        if response.status_code not in (200, 500) or not isinstance(payload, dict):
            said = payload.get("detail") if isinstance(payload, dict) else response.text
            raise Gone(
                {
                    "type": "HTTPError",
                    "message": str(said)[:500],
                    "http": response.status_code,
                    "request_id": request_id,
                }
            )
        error = of_payload(payload)
        if error:
            raise Gone({**error, "request_id": request_id})
        if payload.get("status") != "SUCCEEDED":
            raise Gone(
                {
                    "type": "RequestCancelled",
                    "message": f"the request ended as {payload.get('status')}",
                    "request_id": request_id,
                }
            )
        value = payload.get("return_value")
        return json.loads(value) if isinstance(value, str) else value


def pick(row: object, fields: tuple[str, ...]) -> Document:
    return {name: row.get(name) for name in fields} if isinstance(row, dict) else {}


class Output:
    """Writes whole lines, from any thread, to the descriptor that standard output was."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._lock = threading.Lock()

    def put(self, document: Document) -> None:
        line = json.dumps(document)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


class Worker:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._loaded = threading.Event()
        self._sky: Any = None

    def load(self) -> None:
        """Import `sky`, apart from the thread that reads, so that the end of the input is seen meanwhile."""
        try:
            version = installed()
            self._sky = Sky()
            endpoint = str(self._sky.common.get_server_url())
        except BaseException as error:
            self._output.put({"unusable": describe(error)})
            finish(3)
        self._output.put({"hello": {"version": version, "python": sys.executable, "endpoint": endpoint}})
        self._loaded.set()

    def begin(self, request: Document) -> None:
        threading.Thread(target=self._run, args=(request,), daemon=True).start()

    def _run(self, request: Document) -> None:
        self._loaded.wait()
        id, seconds = request["id"], float(request["seconds"])
        once = threading.Lock()  # taken by whoever answers: the operation or its alarm

        def late() -> None:
            if once.acquire(blocking=False):
                message = "the SkyPilot client gave no answer in time"
                self._output.put({"id": id, "error": {"type": STUCK, "message": message}})

        # Some of the SDK's own calls wait without a limit; their thread is left behind.
        alarm = threading.Timer(seconds + 1.0, late)
        alarm.daemon = True
        alarm.start()
        try:
            operation = getattr(self._sky, request["op"])
            answer = operation(request.get("args") or {}, time.monotonic() + seconds)
        except BaseException as error:
            if once.acquire(blocking=False):
                self._output.put({"id": id, "error": describe(error)})
        else:
            if once.acquire(blocking=False):
                rows = answer.pop("rows", [])
                for start in range(0, len(rows), ROWS):
                    self._output.put({"id": id, "rows": rows[start : start + ROWS]})
                self._output.put({"id": id, "done": answer})
        finally:
            alarm.cancel()


def installed() -> str:
    """The version of the installed SkyPilot. Raises ImportError when there is none or it is not one of the supported."""
    if find_spec("sky") is None:
        raise ImportError("SkyPilot is not installed")
    try:
        version = metadata.version("skypilot")
    except metadata.PackageNotFoundError:
        raise ImportError("there is a package `sky`, but it is not SkyPilot") from None
    numbers = version.split(".")[:2]
    if not all(number.isdigit() for number in numbers) or not (
        SUPPORTED[0] <= tuple(int(number) for number in numbers) <= SUPPORTED[1]
    ):
        first, last = (".".join(str(number) for number in edge) for edge in SUPPORTED)
        raise ImportError(f"SkyPilot {version} is installed; {first} to {last} are supported")
    return version


def finish(status: int) -> NoReturn:
    """End the process now, whatever its threads do."""
    scratch = os.environ.get(SCRATCH, "")
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(status)


def main() -> None:
    """`sky` logs to standard output and may ask on standard input: both are moved out of its reach first."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    output = Output(os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    worker = Worker(output)
    threading.Thread(target=worker.load, daemon=True).start()
    for line in requests:
        if line.strip():
            worker.begin(json.loads(line))
    finish(0)


if __name__ == "__main__":
    try:
        main()
    finally:
        finish(1)
