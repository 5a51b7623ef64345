"""`serve`: a run as a web page, to pick cases, edit actions and ask again."""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import typer

from counterplan.cli import support as cli
from counterplan.errors import InputError, NotApplicableError, not_installed

PORT = 8765
LARGEST_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class ServeOptions(cli.SharedOptions):
    """Options of `counterplan serve`."""

    run: Path = cli.run_folder()
    problem: str | None = cli.trusted_problem()
    host: str = cli.option(
        "Address to listen at. Any but this machine's own (127.0.0.1) needs a token.",
        "127.0.0.1",
        metavar="ADDRESS",
    )
    port: int = cli.option(
        "Port; 0 for any that is free.", PORT, parse=cli.whole_number(0, LARGEST_PORT)
    )
    token: str | None = cli.option(
        "What everyone must show who asks, at least 16 characters; one is made up where it is "
        "needed and not given.",
        envvar="COUNTERPLAN_TOKEN",
        metavar="TEXT",
    )
    allow_host: list[str] | None = cli.option(
        "Another name of this server that pages may be opened under; repeat for more.",
        metavar="NAME",
    )
    workers: int | None = cli.option(
        "Processes that solve (one for each core, 4 at most).",
        parse=cli.whole_number(1, cli.MOST_WORKERS),
    )
    seconds: float = cli.option(
        "Longest that one search may take.", 60.0, parse=cli.from_zero, metavar="SECONDS"
    )


@cli.command()
def serve(options: ServeOptions) -> None:
    """Open a run in the browser, edit it and ask again.

    Pick cases, change actions by hand, forbid some and solve anew. For runs of `counterplan explain
    EPISODES --model MODEL -o OUT` and of `counterplan plan DOMAIN --scenarios FILE -o OUT`. The
    page is for this machine only, unless --host says otherwise; then everyone who asks needs a
    token, which is part of the address that is printed.
    """
    try:
        from counterplan.explorer.app import Service, Settings, server_of
        from counterplan.explorer.security import LOOPBACK, Access
    except ModuleNotFoundError as problem:
        needed = f"the explorer needs {problem.name}"
        raise NotApplicableError(not_installed(needed, "web")) from None
    token = token_of(options)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with _listening(options) as listener:
        port = listener.getsockname()[1]
        names = {options.host, *(options.allow_host or ())}
        if token is not None:
            names.add(socket.gethostname())
        access = Access(LOOPBACK | {name.lower() for name in names}, port, token)
        workers = {} if options.workers is None else {"workers": options.workers}
        settings = Settings(access=access, seconds=options.seconds, **workers)
        service = Service(options.run, settings)
        try:
            service.items.warm()
            server = server_of(service)
            _tell(options, port, token)
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            cli.note("Ended.")
        finally:
            service.jobs.close()


def token_of(options: ServeOptions) -> str | None:
    """What has to be shown; None on this machine alone, unless one is given."""
    from counterplan.explorer.security import SHORTEST_TOKEN, is_loopback

    if options.token is None:
        return None if is_loopback(options.host) else secrets.token_urlsafe(24)
    if len(options.token) < SHORTEST_TOKEN or not options.token.isascii():
        raise InputError(f"--token: give at least {SHORTEST_TOKEN} plain characters")
    if not re.fullmatch(r"[\w-]+", options.token, re.ASCII):
        raise InputError("--token: letters, digits, - and _ only, so that it fits into an address")
    return options.token


def _listening(options: ServeOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=512)
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise InputError(
            f"{options.host}:{options.port}: cannot listen there: {reason}; choose another --port "
            "or --host"
        ) from None


def _tell(options: ServeOptions, port: int, token: str | None) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    if options.host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    url = f"http://{host}:{port}/" + (f"?token={token}" if token else "")
    if options.as_json:
        cli.print_json(
            {"run": str(options.run), "url": url, "token": token, "process": os.getpid()}
        )
    else:
        typer.echo(f"{options.run}: open {url}")
        cli.note("Ctrl-C ends it.")
