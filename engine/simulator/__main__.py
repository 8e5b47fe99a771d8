"""`python -m engine.simulator`: starts a world, says in one line of JSON where it is, and serves until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from engine.simulator.memory import SIM, Memory


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when it was told to stop; 1, with one sentence, when it cannot start."""
    args = _parser().parse_args(argv)
    # Behind the arguments: gRPC, aiohttp and pydantic take a second to load.
    from engine.simulator.simulation import Simulation, serve
    from engine.simulator.world import load

    home: Path = args.home.absolute()
    try:
        memory = _memory(home, args.keep_home)
        simulation = Simulation(load(args.world), home, args.time_scale, args.seed, memory)
        asyncio.run(serve(simulation, _say, with_parent=args.exit_with_parent))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.simulator", description=__doc__)
    parser.add_argument("--world", required=True, help="name of a world that comes along, or a YAML file")
    parser.add_argument("--home", required=True, type=Path, help="the HOME to use; its .npa is laid here")
    parser.add_argument(
        "--time-scale", type=_scale, default=1.0, help="multiplies every duration of the world"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the ids that are made up on the way")
    parser.add_argument(
        "--keep-home",
        action="store_true",
        help="go on with a home that was laid before: the same ports, token and certificates, and what had gone is gone",
    )
    parser.add_argument("--exit-with-parent", action="store_true", help="end when standard input closes")
    return parser


def _scale(text: str) -> float:
    scale = float(text)
    if not 0 < scale < float("inf"):
        raise argparse.ArgumentTypeError("a time scale is a positive number")
    return scale


def _memory(home: Path, keep: bool) -> Memory | None:
    """What an earlier simulation kept, for `--keep-home`; None for a home that is to be laid."""
    npa = home / ".npa"
    if not keep:
        if npa.exists() and any(npa.iterdir()):
            raise ValueError(f"{npa} is not empty; give another folder, or --keep-home")
        return None
    try:
        return Memory.load(home / SIM)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{home} was not laid by a simulation, so there is nothing to go on with") from error


def _say(ready: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
