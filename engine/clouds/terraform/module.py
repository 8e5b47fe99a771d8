"""What a module says about itself, read with python-hcl2; nothing is evaluated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.words.presence import Cause, Unknown
from engine.words.redact import redact


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Facts of a module folder.

    resources                (type, name), sorted; modules that it calls are not followed
    has_destroy_provisioner  something runs on this machine when it is destroyed
    required_version         its constraint on Terraform, or empty
    cluster_name             what its tfvars set, or empty
    pins_iam_token           its tfvars set `iam_token`: refused, since it would outlive the login
    variables                the names that it declares, sorted
    """

    resources: tuple[tuple[str, str], ...]
    has_destroy_provisioner: bool
    required_version: str
    cluster_name: str
    pins_iam_token: bool
    variables: tuple[str, ...]


def module_facts(module_dir: Path) -> ModuleFacts | Unknown:
    """The facts of the `*.tf` and `*.tfvars` files in a folder. What cannot be parsed is `Unknown(MALFORMED)`."""
    try:
        configs = [_load(path) for path in sorted((*module_dir.glob("*.tf"), *module_dir.glob("*.tf.json")))]
        values: dict[str, object] = {}
        for path in _tfvars(module_dir):
            values |= _load(path)
    except (OSError, ValueError) as error:
        return Unknown(Cause.MALFORMED, redact(f"the module in {module_dir} cannot be read: {error}"))
    if not configs:
        return Unknown(Cause.MALFORMED, f"{module_dir} holds no Terraform module")
    resources: set[tuple[str, str]] = set()
    variables: set[str] = set()
    on_destroy = False
    required = ""
    for config in configs:
        for type, name, body in _labelled(config, "resource"):
            resources.add((type, name))
            on_destroy |= _runs_on_destroy(body)
        variables |= {_plain(name) for block in _blocks(config, "variable") for name in block}
        for block in _blocks(config, "terraform"):
            required = _plain(block.get("required_version")) or required
    return ModuleFacts(
        resources=tuple(sorted(resources)),
        has_destroy_provisioner=on_destroy,
        required_version=required,
        cluster_name=_plain(values.get("cluster_name")),
        pins_iam_token=bool(_plain(values.get("iam_token"))),
        variables=tuple(sorted(variables)),
    )


def _tfvars(module_dir: Path) -> Iterator[Path]:
    """The files that Terraform loads by itself, weakest first."""
    for name in ("terraform.tfvars", "terraform.tfvars.json"):
        if (module_dir / name).exists():
            yield module_dir / name
    yield from sorted((*module_dir.glob("*.auto.tfvars"), *module_dir.glob("*.auto.tfvars.json")))


def _load(path: Path) -> dict[str, object]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        loaded: object = json.loads(text)
    else:
        import hcl2
        from lark.exceptions import LarkError

        try:
            loaded = hcl2.loads(text if text.endswith("\n") else text + "\n")
        except LarkError as error:
            raise ValueError(f"{path.name}: {str(error).splitlines()[0]}") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"{path.name} holds no table")
    return loaded


def _plain(value: object) -> str:
    """A string without the quotes that python-hcl2 keeps around literals; anything else is empty."""
    return value.strip('"') if isinstance(value, str) else ""


def _blocks(of: dict[str, object], name: str) -> Iterator[dict[str, object]]:
    found = of.get(name, ())
    for block in found if isinstance(found, list) else (found,):
        if isinstance(block, dict):
            yield block


def _labelled(config: dict[str, object], name: str) -> Iterator[tuple[str, str, dict[str, object]]]:
    for block in _blocks(config, name):
        for type in block:
            for labelled in _blocks(block, type):
                for label in labelled:
                    for body in _blocks(labelled, label):
                        yield _plain(type), _plain(label), body


def _runs_on_destroy(body: dict[str, object]) -> bool:
    return any(
        _plain(inner.get("when")) == "destroy"
        for provisioner in _blocks(body, "provisioner")
        for label in provisioner
        for inner in _blocks(provisioner, label)
    )
