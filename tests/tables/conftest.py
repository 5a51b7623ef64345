"""The schema of the small ward."""

from __future__ import annotations

import tomllib

import pytest

from counterplan.tables.schema import Schema, schema_from_dict

from .schema_support import SCHEMA_TOML


@pytest.fixture
def schema() -> Schema:
    return schema_from_dict(tomllib.loads(SCHEMA_TOML))
