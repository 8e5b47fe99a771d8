"""SkyPilot's own SDK in a process of its own: JSON lines in, JSON lines out. Started by the tests with a HOME of its own.

In: `{"call": "jobs.queue_v2", "args": {...}}`; out: `{"value": ...}` or `{"error": CLASS, "message": ..., "status": ...}`, and the
log of the request as `log`.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any


def plain(value: Any) -> Any:
    """What JSON can say of a result."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "model_dump"):
        kept = (
            "name",
            "job_id",
            "task_id",
            "job_name",
            "task_name",
            "status",
            "cluster_name_on_cloud",
            "region",
        )
        return {k: plain(getattr(value, k)) for k in kept if getattr(value, k, None) is not None}
    return getattr(value, "value", value)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    import sky

    for line in sys.stdin:
        asked = json.loads(line)
        verb: Any = sky
        for part in asked["call"].split("."):
            verb = getattr(verb, part)
        args = dict(asked["args"])
        if "refresh" in args and isinstance(args["refresh"], str):
            args["refresh"] = getattr(sky.StatusRefreshMode, args["refresh"])
        log = io.StringIO()
        try:
            done = {"value": plain(sky.stream_and_get(verb(**args), output_stream=log))}
        except Exception as error:
            status = getattr(error, "cluster_status", None)
            done = {"error": type(error).__name__, "message": str(error), "status": plain(status)}
        print(json.dumps({**done, "log": log.getvalue()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
