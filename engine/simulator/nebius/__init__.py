"""The provider's gRPC services on one loopback port, made from the SDK's own descriptors: there are no servicer stubs in it."""

from __future__ import annotations

import socket

import grpc
import grpc.aio

from engine.simulator.cloud import Cloud
from engine.simulator.faults import Timetable
from engine.simulator.nebius.services import Services

_OPTIONS = (
    # The SDK pings every 20 s also without calls; a default server hangs up on that.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.max_ping_strikes", 0),
    # Two servers on one port must be an error, not a coin toss.
    ("grpc.so_reuseport", 0),
)


async def serve(cloud: Cloud, timetable: Timetable, port: int = 0) -> tuple[grpc.aio.Server, int]:
    """Start on loopback; the server and its port. Raises `OSError` when the port is taken."""
    with socket.socket() as probe:  # asked first, because gRPC complains on stderr by itself
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(f"port {port} on 127.0.0.1 cannot be had: {error.strerror}") from error
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((Services(cloud, timetable),))
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server, bound
