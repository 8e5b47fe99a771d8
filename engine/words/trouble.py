"""The one exception by which a client says that a call failed."""

from __future__ import annotations

from engine.words.presence import Cause, Unknown


class Trouble(Exception):
    """A call failed. `detail` went through the redactor; `request_id` is the provider's, for its support."""

    def __init__(self, cause: Cause, detail: str = "", request_id: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else str(cause))
        self.cause = cause
        self.detail = detail
        self.request_id = request_id

    @property
    def unknown(self) -> Unknown:
        """The same failure as the answer of a look."""
        return Unknown(
            self.cause, f"{self.detail} (request {self.request_id})" if self.request_id else self.detail
        )
