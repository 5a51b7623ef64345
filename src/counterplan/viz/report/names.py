"""How the cases of a report are called: by their ids, or by pseudonyms that do not lead back.

A pseudonym is the start of a keyed hash (HMAC-SHA256) of the id. Without the key nobody can find
out whose it is by trying ids; with the same key the same id has the same pseudonym everywhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from counterplan.errors import FileError
from counterplan.files.contents import read_bytes

# Keys that are shorter could be tried one after another.
SHORTEST_KEY = 16
# Twelve letters of five bits: of a million ids two share one with a chance of 4 in 10 million.
LETTERS, GROUP = 12, 4
SHORT = 4


@dataclass(frozen=True)
class Names:
    """What ids are shown as; `key` None for the ids themselves."""

    key: bytes | None = None

    @property
    def hidden(self) -> bool:
        """Whether ids are replaced."""
        return self.key is not None

    def shown(self, name: str) -> str:
        """What stands for an id."""
        if self.key is None:
            return name
        digest = hmac.new(self.key, name.encode(), hashlib.sha256).digest()
        text = base64.b32encode(digest).decode("ascii")[:LETTERS]
        return "-".join(["P", *(text[i : i + GROUP] for i in range(0, LETTERS, GROUP))])

    def within(self, text: str, name: str) -> str:
        """A text about the case `name`, in which it may be called by its id."""
        if self.key is None or not name:
            return text
        for written in dict.fromkeys((repr(name), repr(name)[1:-1], name)):
            pattern = re.escape(written)
            # A short id may well be part of a word that has nothing to do with it.
            if len(name) < SHORT:
                pattern = rf"(?<!\w){pattern}(?!\w)"
            text = re.sub(pattern, self.shown(name), text)
        return text


def pseudonyms(key_file: Path | None = None) -> Names:
    """Pseudonyms by the key in a file, or by a random one that is kept nowhere."""
    if key_file is None:
        return Names(secrets.token_bytes(32))
    key = read_bytes(key_file, "the key of pseudonyms")
    if len(key) < SHORTEST_KEY:
        raise FileError(
            f"{key_file}: has {len(key)} bytes, too few for a key; give at least {SHORTEST_KEY} "
            "random ones"
        )
    return Names(key)
