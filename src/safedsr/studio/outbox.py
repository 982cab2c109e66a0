"""Messages to one page. A page that reads slowly gets the latest picture, not all of them."""

import asyncio
from typing import Any

LATEST = ("picture", "oracle", "progress", "curves", "film")  # of these, the latest counts
MOST = 200  # other messages that wait


class Outbox:
    """A queue that does not grow."""

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []
        self._filled = asyncio.Event()

    def put(self, message: dict[str, Any]) -> None:
        """Add a message; one of the same kind that waits is left out if only the latest counts."""
        kind = message["type"]
        if kind in LATEST:
            self._waiting = [one for one in self._waiting if one["type"] != kind]
        self._waiting = [*self._waiting, message][-MOST:]
        self._filled.set()

    async def get(self) -> dict[str, Any]:
        """The next message."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        return self._waiting.pop(0)
