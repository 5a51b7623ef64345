"""How a server is set up."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from counterplan.errors import InputError
from counterplan.explorer.security import Access


@dataclass(frozen=True)
class Settings:
    """What the server allows.

    workers     processes that solve
    seconds     a search may take at most
    per_client  questions that one client may have waiting or at work
    """

    access: Access = field(default_factory=Access)
    workers: int = field(default_factory=lambda: max(1, min(4, os.cpu_count() or 1)))
    seconds: float = 60.0
    per_client: int = 4

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds <= 86_400.0:
            raise InputError(f"seconds must be above 0 and at most 86,400, got {self.seconds}")
        if self.workers < 1 or self.per_client < 1:
            raise InputError("there must be at least one worker, and one question for each client")
