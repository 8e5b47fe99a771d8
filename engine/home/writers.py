"""The changes that phases make to the CLI's YAML stores: each one read, change and replacement under the store's lock.

All give True when something was written, and raise `RecordError` for a store that cannot be read strictly, `OSError` when it cannot be
written. None of them talks to a provider; none is called before a proof.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from engine.home import config_edits, credential_edits
from engine.home.config import read_config
from engine.home.credentials import read_credentials
from engine.home.errors import Kind, RecordError
from engine.home.roots import Roots
from engine.home.storage_proofs import owned_ids, storage_candidates
from engine.home.yaml_edit import Change, edit_yaml


def _config(roots: Roots, change: Change) -> bool:
    return edit_yaml(roots.config_yaml, change, kind=Kind.CONFIG, own_link=True)


def _credentials(roots: Roots, change: Change) -> bool:
    return edit_yaml(roots.credentials_yaml, change, kind=Kind.CREDENTIALS)


def forget_project(roots: Roots, alias: str, project_id: str) -> bool:
    """Remove an alias from the configuration. Refuses while its storage access marker stands."""
    return _config(roots, lambda document: config_edits.forget_project(document, alias, project_id))


def clear_controller_owner(roots: Roots, project_id: str, cluster_id: str, context: str) -> bool:
    return _config(
        roots, lambda document: config_edits.clear_controller_owner(document, project_id, cluster_id, context)
    )


def clear_sky_bin(roots: Roots) -> bool:
    return _config(roots, config_edits.clear_sky_bin)


def drop_agent(roots: Roots, alias: str, name: str) -> bool:
    return _config(roots, lambda document: config_edits.drop_agent(document, alias, name))


def put_marker(roots: Roots, alias: str, observation: Mapping[str, object]) -> bool:
    """Note what was seen of a project's storage access. The rank of what is noted never falls."""
    return _config(roots, lambda document: config_edits.put_marker(document, alias, observation))


def clear_marker(roots: Roots, alias: str, project_id: str, gone: Collection[str]) -> bool:
    """Take ids that are proven absent out of the marker; it goes when nothing that it or a live record names is left.

    Call it after `drop_storage_generation`. What the stores still claim is read here; a store that cannot be read leaves the marker.
    Old journals and receipts name what was deleted long ago: they hold the marker only for what a store still claims.
    """
    credentials = read_credentials(roots)
    if credentials is not None and credentials.problems:
        raise RecordError(credentials.problems[0])
    setup = credentials.setup(project_id) if credentials else None
    owned = owned_ids(storage_candidates(credentials, (), (), project_id), setup) - set(gone)
    return _config(roots, lambda document: config_edits.clear_marker(document, alias, gone, owned))


def prune_storage_secrets(roots: Roots, project_id: str, bucket: str) -> bool:
    """Remove what opens a bucket that is gone, from both stores and every place in them."""
    # The store first: as long as it holds the secret, the CLI makes the other copies anew.
    pruned = _credentials(
        roots, lambda document: credential_edits.prune_storage(document, project_id, bucket)
    )
    return _config(roots, lambda document: config_edits.drop_bucket(document, project_id, bucket)) or pruned


def storage_secrets_left(roots: Roots, project_id: str, bucket: str) -> tuple[str, ...]:
    """Fields that still hold credentials of a bucket: empty after `prune_storage_secrets`, unless a writer brought them back."""
    config, credentials = read_config(roots), read_credentials(roots)
    blocks = [
        (roots.config_yaml.name, keys)
        for stanza in (config.of(project_id) if config else ())
        for keys in stanza.buckets
    ]
    if credentials:
        record = credentials.project(project_id)
        stored = (record.storage, record.terraform_state) if record else ()
        blocks += [(roots.credentials_yaml.name, keys) for keys in (*stored, *credentials.views) if keys]
    return tuple(
        f"{name}: {keys.field}"
        for name, keys in blocks
        if keys.bucket == bucket and (keys.access_key_id or keys.secret_key or keys.session_token)
    )


def drop_storage_generation(roots: Roots, project_id: str, account_id: str, gone: Collection[str]) -> bool:
    """Remove a storage account that is proven gone, with its keys, from every record that is not history."""
    return _credentials(
        roots,
        lambda document: credential_edits.drop_storage_generation(document, project_id, account_id, gone),
    )


def drop_agent_iam(roots: Roots, project_id: str) -> bool:
    return _credentials(roots, lambda document: credential_edits.drop_agent_iam(document, project_id))


def forget_credentials(roots: Roots, project_id: str) -> bool:
    """Remove everything of one project from the credentials; the operator's own tokens stay."""
    return _credentials(roots, lambda document: credential_edits.forget_credentials(document, project_id))


def drop_known_tokens(roots: Roots) -> bool:
    """Remove the operator's tokens of the known services. Only for a clean-up that was asked to."""
    return _credentials(roots, credential_edits.drop_known_tokens)
