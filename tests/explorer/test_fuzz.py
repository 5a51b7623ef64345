"""Questions of all kinds that follow the API's own document: none makes the server fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from counterplan.explorer.app import Service, Settings, create_app
from counterplan.explorer.security import LOOPBACK, Access

# What a server that is asked in process is called.
HOSTS = LOOPBACK | {"testserver"}
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = 12


@pytest.mark.parametrize("kind", ["continuous_out", "discrete_out", "voyages_out"])
def test_no_question_makes_the_server_fail(kind: str, request: pytest.FixtureRequest) -> None:
    out: Path = request.getfixturevalue(kind)
    access = Access(HOSTS)
    service = Service(out, Settings(access=access, workers=1, seconds=0.2, per_client=2))
    try:
        names = service.run.results().select(service.run.id_column).collect().to_series()
        app = create_app(service)
        schema = schemathesis.openapi.from_asgi("/api/openapi.json", app)
        asked = [_fuzz(found.ok(), names.to_list()) for found in schema.get_all_operations()]
    finally:
        service.jobs.close()
    assert len(asked) == 10
    answered = {status for statuses in asked for status in statuses}
    assert {200, 404} <= answered <= {200, 202, 400, 404, 422, 429}


def _fuzz(operation: Any, names: list[str]) -> set[int]:
    """Ask one operation many things; which statuses came back."""
    statuses: set[int] = set()

    @settings(
        max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(case=operation.as_strategy(), name=st.sampled_from(names), is_real=st.booleans())
    def ask(case: Any, name: str, is_real: bool) -> None:
        if is_real:  # what is known of nobody stops at the door
            for part in (case.query, case.body):
                if isinstance(part, dict) and "id" in part:
                    part["id"] = name
        response = case.call()
        statuses.add(response.status_code)
        case.validate_response(response, checks=list(CHECKS))

    ask()
    return statuses
