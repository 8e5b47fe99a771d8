"""The operator's own service tokens in `credentials.yaml`: which are there, never what they are."""

from __future__ import annotations

from dataclasses import dataclass

from engine.home.fields import Fields

_TOKENS = ("HF_TOKEN", "NEBIUS_TOKEN_FACTORY_KEY", "NGC_API_KEY", "NGC_ORG", "NGC_TEAM")

GROUPS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("Hugging Face token", "huggingface", ("token", "hf_token", "api_key", "key"), _TOKENS[:1]),
    ("Token Factory key", "token_factory", ("api_key", "apikey", "key", "token"), _TOKENS[1:2]),
    (
        "NGC credentials",
        "ngc",
        ("api_key", "apikey", "key", "token", "org", "organization", "team"),
        _TOKENS[2:],
    ),
)
"""Label, section, its known fields, and the names in `tokens` or at the top level that hold the same."""


@dataclass(frozen=True, slots=True)
class TokenGroup:
    """A service whose credentials are set. `fields` are dotted names."""

    label: str
    fields: tuple[str, ...]


def read_tokens(root: Fields) -> tuple[TokenGroup, ...]:
    """Each known service with a non-empty known field. Raises `RecordError`."""
    tokens = root.block("tokens")
    found: list[TokenGroup] = []
    for label, section, known, names in GROUPS:
        block = root.block(section)
        fields = [block.name(name) for name in known if block.raw(name)]
        fields += [tokens.name(name) for name in names if tokens.raw(name)]
        fields += [name for name in names if root.raw(name)]
        if fields:
            found.append(TokenGroup(label, tuple(fields)))
    return tuple(found)
