"""Starts a world: all servers on loopback in one loop, the matching home on disk, one line of JSON when it is ready."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from engine.simulator import nebius
from engine.simulator.certificates import loopback
from engine.simulator.cloud import Cloud, Resource
from engine.simulator.control import Control
from engine.simulator.faults import Timetable
from engine.simulator.home import Home
from engine.simulator.ids import cluster_ids, storage_ids
from engine.simulator.inhabit import CONTROLLER, USER_HASH, contents, inhabit, kubernetes_spec
from engine.simulator.kubernetes import KubernetesCluster
from engine.simulator.object_store import ObjectStore
from engine.simulator.skypilot import Row, SkyServer
from engine.simulator.world import World, load


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.simulator", description=__doc__)
    parser.add_argument("--world", required=True, help="name of a world that comes along, or a YAML file")
    parser.add_argument("--home", required=True, type=Path, help="the HOME to use; its .npa is laid here")
    parser.add_argument(
        "--time-scale", type=float, default=1.0, help="multiplies every duration of the world"
    )
    parser.add_argument(
        "--keep-home", action="store_true", help="the home was laid before: serve it on the same ports"
    )
    parser.add_argument("--exit-with-parent", action="store_true", help="end when standard input closes")
    args = parser.parse_args()
    home = args.home.absolute()
    if not args.keep_home and (home / ".npa").exists() and any((home / ".npa").iterdir()):
        sys.stderr.write(f"{home}/.npa is not empty; give another folder, or --keep-home\n")
        return 1
    try:
        world = load(args.world)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    asyncio.run(serve(world, home, args.time_scale, keep=args.keep_home, with_parent=args.exit_with_parent))
    return 0


async def serve(world: World, home: Path, scale: float, *, keep: bool, with_parent: bool) -> None:
    """Serve until a signal comes, or the parent goes."""
    saved = _saved(home) if keep else {}
    timetable = Timetable(world.faults, scale)
    cloud = Cloud(world, scale)
    if token := saved.get("token"):
        cloud.token = token
    inhabit(cloud, world)
    storages = [p.storage for p in world.projects if p.storage]
    keys = {(ids := storage_ids(s)).aws_key: ids.aws_secret for s in storages}
    store = ObjectStore([contents(s) for s in storages], keys, timetable)
    cloud.bucket_is_empty = lambda name: store.usage(name).empty
    specs = {c.context: c for p in world.projects for c in p.clusters}
    clusters = {
        name: KubernetesCluster(kubernetes_spec(c), {cloud.token}, timetable, scale)
        for name, c in specs.items()
    }
    sky = _sky(world, clusters, timetable, scale)
    _connect(
        cloud,
        store,
        clusters,
        {cluster_ids(c).cluster: name for name, c in specs.items()},
        {storage_ids(s).key: storage_ids(s).aws_key for s in storages},
    )

    def save_token(token: str) -> None:
        (home / ".nebius/token").write_text(token + "\n")
        for cluster in clusters.values():
            cluster.accept(token)

    ports: dict[str, int] = saved.get("ports", {})
    server, ports["nebius"] = await nebius.serve(cloud, timetable, ports.get("nebius", 0))
    control = Control(cloud, store, sky, clusters, timetable, save_token)
    runners = []
    tls, ca = loopback()
    apps: list[tuple[str, web.Application, ssl.SSLContext | None]] = [
        ("control", control.app(), None),
        ("s3", store.app(), None),
        ("sky", sky.app(), None),
    ]
    apps += [(f"kubernetes {name}", c.app(), tls) for name, c in clusters.items()]
    for name, app, context in apps:
        runner, ports[name] = await _serve_app(app, ports.get(name, 0), context)
        runners.append(runner)
    urls = {name: f"https://127.0.0.1:{ports[f'kubernetes {name}']}" for name in clusters}
    for name, c in specs.items():
        cloud.resources[cluster_ids(c).cluster].doc["status"]["controlPlane"]["endpoints"][
            "publicEndpoint"
        ] = urls[name]
    at = {name: f"http://127.0.0.1:{ports[name]}" for name in ("control", "s3", "sky")}
    if not keep:
        Home(
            home,
            world,
            token=cloud.token,
            s3=at["s3"],
            control=at["control"],
            kubernetes={n: (u, ca) for n, u in urls.items()},
        ).lay()
    (home / ".sim").mkdir(exist_ok=True)
    (home / ".sim/ports.json").write_text(json.dumps({"ports": ports, "token": cloud.token}))
    env = {
        "HOME": str(home), "NEBIUS_ENDPOINT": f"127.0.0.1:{ports['nebius']}", "NPA_NEBIUS_PLAINTEXT": "1", "SKYPILOT_API_SERVER_ENDPOINT": at["sky"],
        "SKYPILOT_DISABLE_USAGE_COLLECTION": "1", "NPA_TIME_SCALE": f"{scale:g}", "NPA_SIMULATOR_CONTROL": at["control"],
    }  # fmt: skip
    first = world.projects[0]
    ready = {
        "ready": True,
        "env": env,
        "control": at["control"],
        "pid": os.getpid(),
        "project": first.id,
        "alias": first.alias,
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    await _until_over(with_parent)
    await server.stop(0.1)
    for runner in runners:
        await runner.cleanup()


def _sky(
    world: World, clusters: dict[str, KubernetesCluster], timetable: Timetable, scale: float
) -> SkyServer:
    jobs = [r.job for p in world.projects for r in p.runs if r.job]
    context = next((c.context for p in world.projects for c in p.clusters if c.controller), "")
    return SkyServer(
        USER_HASH, Row(CONTROLLER, context) if context else None, jobs, clusters, timetable, scale
    )


def _connect(
    cloud: Cloud,
    store: ObjectStore,
    clusters: dict[str, KubernetesCluster],
    contexts: dict[str, str],
    aws: dict[str, str],
) -> None:
    """What goes elsewhere when a thing of the provider goes."""

    def gone(r: Resource) -> None:
        if r.kind == "bucket":
            store.drop_bucket(r.name)
        elif r.kind == "cluster" and r.id in contexts:
            clusters[contexts[r.id]].stop()
        elif r.kind == "accesskey" and r.id in aws:
            store.revoke(aws[r.id])

    cloud.on_gone.append(gone)


async def _serve_app(
    app: web.Application, port: int, tls: ssl.SSLContext | None
) -> tuple[web.AppRunner, int]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    sockets: Any = site._server.sockets  # type: ignore[union-attr]
    return runner, sockets[0].getsockname()[1]


def _saved(home: Path) -> dict[str, Any]:
    return dict(json.loads((home / ".sim/ports.json").read_text()))


async def _until_over(with_parent: bool) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    if with_parent:
        loop.add_reader(0, lambda: over.set() if not os.read(0, 4096) else None)
    await over.wait()
    with suppress(Exception):
        loop.remove_reader(0)


if __name__ == "__main__":
    sys.exit(main())
