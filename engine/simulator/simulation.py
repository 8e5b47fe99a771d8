"""One simulation: a world's servers on loopback in one loop, joined to each other, and the home that matches them."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Callable
from pathlib import Path

import grpc.aio
from aiohttp import web

from engine.simulator import nebius
from engine.simulator.certificates import loopback
from engine.simulator.cloud import Cloud
from engine.simulator.control import Control
from engine.simulator.faults import Timetable
from engine.simulator.home import Home
from engine.simulator.home.endpoints import Endpoints
from engine.simulator.ids import cluster_ids, storage_ids
from engine.simulator.inhabit import CONTROLLER, USER_HASH, contents, inhabit, kubernetes_spec
from engine.simulator.kubernetes import KubernetesCluster
from engine.simulator.memory import SIM, Memory
from engine.simulator.object_store import ObjectStore
from engine.simulator.resources import Refusal, Resource
from engine.simulator.skypilot import JobSpec, SkyClusterSpec, SkyServer, SkySpec
from engine.simulator.world import World


class Simulation:
    """Everything of one world. `memory`: what an earlier one kept in this home; None: lay the home.

    Raises `ValueError` for a world whose things cannot be there together.
    """

    def __init__(self, world: World, home: Path, scale: float, seed: int, memory: Memory | None) -> None:
        self.world, self.home, self.scale = world, home, scale
        self._lay = memory is None
        self._memory = memory or Memory()
        self._timetable = Timetable(world.faults, scale)
        self._cloud = Cloud(world, scale, seed)
        if self._memory.token:
            self._cloud.token = self._memory.token
        try:
            inhabit(self._cloud, world)
        except Refusal as no:
            raise ValueError(f"this world contradicts itself: {no}") from no
        storages = [p.storage for p in world.projects if p.storage]
        keys = {(ids := storage_ids(s)).aws_key: ids.aws_secret for s in storages}
        self._store = ObjectStore(
            [contents(p, p.storage) for p in world.projects if p.storage], keys, self._timetable
        )
        self._cloud.bucket_is_empty = lambda name: not self._store.has(name) or self._store.usage(name).empty
        self._specs = {c.context: c for p in world.projects for c in p.clusters}
        self._clusters = {
            name: KubernetesCluster(kubernetes_spec(c), {self._cloud.token}, self._timetable, scale)
            for name, c in self._specs.items()
        }
        self._sky = self._job_queue()
        self._context_of = {cluster_ids(c).cluster: name for name, c in self._specs.items()}
        self._aws_key_of = {storage_ids(s).key: storage_ids(s).aws_key for s in storages}
        self._runners: list[web.AppRunner] = []
        self._grpc: grpc.aio.Server | None = None

    def _job_queue(self) -> SkyServer:
        jobs = [r.job for p in self.world.projects for r in p.runs if r.job]
        context = next((c.context for p in self.world.projects for c in p.clusters if c.controller), "")
        known = context and self._memory.controller
        clusters = [SkyClusterSpec(name=CONTROLLER, context=context)] if known else []
        if self._memory.jobs is not None:
            # Whoever was cancelling them ended with the process: they are over.
            kept = [JobSpec.model_validate(j) for j in self._memory.jobs]
            jobs = [
                j.model_copy(update={"status": "CANCELLED"}) if j.status == "CANCELLING" else j for j in kept
            ]
        spec = SkySpec(user_hash=USER_HASH, clusters=clusters, jobs=jobs)
        return SkyServer(spec, self._clusters, self._timetable, self.scale)

    async def start(self) -> dict[str, object]:
        """Start all servers and lay the home; what a client needs to know. Raises `OSError` when a port is taken."""
        sim, ports = self.home / SIM, dict(self._memory.ports)
        self.home.mkdir(parents=True, exist_ok=True)
        self._grpc, ports["nebius"] = await nebius.serve(self._cloud, self._timetable, ports.get("nebius", 0))
        control = Control(
            self._cloud, self._store, self._sky, self._clusters, self._timetable, self._log_in_again
        )
        tls, authority = loopback(sim)
        apps: list[tuple[str, web.Application, ssl.SSLContext | None]] = [
            ("control", control.app(), None),
            ("s3", self._store.app(), None),
            ("sky", self._sky.app(), None),
        ]
        apps += [(f"kubernetes {name}", c.app(), tls) for name, c in self._clusters.items()]
        for name, app, context in apps:
            ports[name] = await self._serve_app(app, ports.get(name, 0), context)
        at = {name: f"http://127.0.0.1:{ports[name]}" for name in ("control", "s3", "sky")}
        urls = {name: f"https://127.0.0.1:{ports[f'kubernetes {name}']}" for name in self._clusters}
        for name, c in self._specs.items():
            plane = {"endpoints": {"publicEndpoint": urls[name]}}
            self._cloud.resources[cluster_ids(c).cluster].doc["status"]["controlPlane"] = plane
        if self._lay:
            access = {name: (url, authority) for name, url in urls.items()}
            endpoints = Endpoints(at["s3"], at["control"], access)
            Home(self.home, self.world, token=self._cloud.token, endpoints=endpoints).lay()
        self._memory.ports = ports
        self._cloud.on_gone.append(self._gone)
        for id in list(self._memory.gone):
            self._go_again(id)
        self._remember()
        env = {
            "HOME": str(self.home), "NEBIUS_ENDPOINT": f"127.0.0.1:{ports['nebius']}", "NPA_NEBIUS_PLAINTEXT": "1",
            "SKYPILOT_API_SERVER_ENDPOINT": at["sky"], "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            "NPA_TIME_SCALE": f"{self.scale:g}", "NPA_SIMULATOR_CONTROL": at["control"],
        }  # fmt: skip
        first = self.world.projects[0]
        return {
            "ready": True, "env": env, "control": at["control"], "pid": os.getpid(), "project": first.id, "alias": first.alias,
        }  # fmt: skip

    async def stop(self) -> None:
        """Stop all servers, whatever they are answering."""
        self._timetable.end()
        await self._cloud.close()
        if self._grpc:
            await self._grpc.stop(0.1)
        for runner in self._runners:
            await runner.cleanup()
        if self._memory.ports:
            self._remember()

    async def _serve_app(self, app: web.Application, port: int, tls: ssl.SSLContext | None) -> int:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        self._runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        return int(runner.addresses[0][1])

    # -- what one of them tells the others ------------------------------------------------------------------------------

    def _gone(self, r: Resource) -> None:
        """What goes elsewhere when a thing of the provider goes."""
        match r.kind:
            case "bucket" if self._store.has(r.name):
                self._store.drop_bucket(r.name)
            case "cluster" if r.id in self._context_of:
                self._clusters[self._context_of[r.id]].stop()
            case "accesskey" if r.id in self._aws_key_of:
                self._store.revoke(self._aws_key_of[r.id])
        if r.id not in self._memory.gone:
            self._memory.gone.append(r.id)
            self._remember()

    def _go_again(self, id: str) -> None:
        """What had gone before this process is not there."""
        try:
            self._cloud.vanish(id)
        except Refusal:  # it went with another
            return

    def _log_in_again(self, token: str) -> None:
        """Another token is valid: leave it where clients look for it."""
        (self.home / ".nebius/token").write_text(token + "\n")
        for cluster in self._clusters.values():
            cluster.accept(token)
        self._remember()

    def _remember(self) -> None:
        queue = self._sky.describe()
        self._memory.token = self._cloud.token
        self._memory.jobs, self._memory.controller = queue["jobs"], bool(queue["clusters"])
        self._memory.save(self.home / SIM)


async def serve(
    simulation: Simulation, say: Callable[[dict[str, object]], None], *, with_parent: bool
) -> None:
    """Start, say where, and stop at SIGINT, SIGTERM, or, `with_parent`, when standard input closes."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    if with_parent:
        try:
            loop.add_reader(0, lambda: None if os.read(0, 4096) else over.set())
        except (OSError, ValueError):
            raise OSError("standard input is no pipe, so it cannot tell when the parent ends") from None
    try:
        say(await simulation.start())
        await over.wait()
    finally:
        if with_parent:
            loop.remove_reader(0)
        await simulation.stop()
