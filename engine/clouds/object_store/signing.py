"""AWS Signature Version 4 for S3: paths are encoded once, the payload's hash is signed."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote

from engine.clouds.object_store.access import StoreAccess

_UNRESERVED = "-_.~"


def encode_path(bucket: str, key: bytes) -> str:
    return f"/{quote(bucket, safe=_UNRESERVED)}" + (f"/{quote(key, safe=_UNRESERVED + '/')}" if key else "")


def encode_query(query: Mapping[str, str | bytes]) -> str:
    """Sorted by encoded name, as it is signed and as it is sent."""
    pairs = sorted((quote(n, safe=_UNRESERVED), quote(v, safe=_UNRESERVED)) for n, v in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


class Signer:
    """Signs requests of one access key. The derived key of a day and region is kept."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._keys: dict[tuple[str, str], bytes] = {}

    def headers(
        self,
        method: str,
        host: str,
        path: str,
        query: str,
        extra: Mapping[str, str],
        body: bytes,
        region: str,
        at: datetime,
    ) -> dict[str, str]:
        """All headers to send, `Authorization` among them. `extra` has lower-case names; `at` is UTC."""
        moment = at.strftime("%Y%m%dT%H%M%SZ")
        payload = hashlib.sha256(body).hexdigest()
        headers = {**extra, "host": host, "x-amz-content-sha256": payload, "x-amz-date": moment}
        if self._access.session_token is not None:
            headers["x-amz-security-token"] = self._access.session_token.reveal()
        names = ";".join(sorted(headers))
        canonical = "\n".join(
            (
                method,
                path,
                query,
                *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
                "",
                names,
                payload,
            )
        )
        scope = f"{moment[:8]}/{region}/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
        signature = hmac.new(self._key(moment[:8], region), to_sign.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._access.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return headers

    def _key(self, day: str, region: str) -> bytes:
        key = self._keys.get((day, region))
        if key is None:
            key = f"AWS4{self._access.secret.reveal()}".encode()
            for part in (day, region, "s3", "aws4_request"):
                key = hmac.new(key, part.encode(), hashlib.sha256).digest()
            self._keys = {(day, region): key}
        return key
