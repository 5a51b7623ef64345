"""The server around the application."""

from __future__ import annotations

import uvicorn

from counterplan.explorer.app import create_app
from counterplan.explorer.service import Service

# Longest that answers under way are waited for when the server is ended.
GOODBYE = 2


def server_of(service: Service) -> uvicorn.Server:
    """A server for a run; `run(sockets=[...])` serves until it is told to end."""
    config = uvicorn.Config(
        create_app(service),
        log_level="warning",
        access_log=False,
        server_header=False,
        # What a proxy says about clients is not believed.
        proxy_headers=False,
        timeout_graceful_shutdown=GOODBYE,
        ws="none",
    )
    return uvicorn.Server(config)
