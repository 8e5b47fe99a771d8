"""What a Terraform process is given: the operator's environment without what would steer it from aside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.clouds.terraform.failures import Kind, TerraformTrouble
from engine.words.presence import Cause

_AMBIENT_TOKENS = ("NEBIUS_IAM_TOKEN", "NEBIUS_IAM_TOKEN_FILE", "TF_VAR_iam_token")
_STRIPPED = frozenset({
    "TF_REATTACH_PROVIDERS",  # would talk to a provider that somebody debugs
    "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE",
    "TF_STATE_PERSIST_INTERVAL",
    "TF_DATA_DIR",
})  # fmt: skip
# Arguments from aside could narrow a destroy or upgrade a provider; logs of Terraform hold secrets; keys of another cloud or
# another bucket must not reach the state's backend.
_STRIPPED_PREFIXES = ("AWS_", "TF_CLI_ARGS", "TF_LOG")


def plugin_cache(environ: Mapping[str, str], platform: str) -> Path | None:
    """The folder of downloaded providers for this platform, or None without a home."""
    if root := environ.get("TF_PLUGIN_CACHE_DIR"):
        return Path(root).expanduser() / platform
    if home := environ.get("HOME"):
        return Path(home) / ".npa" / "terraform-plugin-cache" / platform
    return None


def child_environment(
    environ: Mapping[str, str],
    *,
    module_dir: Path,
    data_dir: Path,
    cache: Path | None,
    reuse_token: bool,
    variables: Mapping[str, str],
    secrets: Mapping[str, str],
) -> dict[str, str]:
    """The whole environment of a Terraform process.

    variables  name -> value of module variables; an ambient `TF_VAR_*` and the module's tfvars win over them
    secrets    environment name -> value, which win over everything; here and nowhere in an argument list

    Raises `TerraformTrouble` when the plugin cache lies inside the module.
    """
    env = {
        name: value
        for name, value in environ.items()
        if name not in _STRIPPED
        and not name.startswith(_STRIPPED_PREFIXES)
        and (reuse_token or name not in _AMBIENT_TOKENS)
    }
    for name, value in variables.items():
        env.setdefault(f"TF_VAR_{name}", value)
    env |= {
        "CHECKPOINT_DISABLE": "1",
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "TF_DATA_DIR": str(data_dir),
    }
    if cache is not None:
        if cache.resolve().is_relative_to(module_dir.resolve()):
            raise TerraformTrouble(
                Kind.FAILED, Cause.CONFLICT, f"the provider cache {cache} lies inside the module {module_dir}"
            )
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        env["TF_PLUGIN_CACHE_DIR"] = str(cache)
    configured = env.get("TF_CLI_CONFIG_FILE")
    if configured is not None and not Path(configured).exists():
        empty = data_dir / "terraform.rc"
        empty.touch(mode=0o600)
        env["TF_CLI_CONFIG_FILE"] = str(empty)
    return env | dict(secrets)
