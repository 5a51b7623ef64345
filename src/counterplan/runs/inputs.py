"""The episodes of a file as a cohort run takes them, whatever kind of table they come from.

A table that a schema describes, or one of discrete states, is checked as a whole and then given a
few episodes at a time, so that memory does not grow with it. The built-in tables of intensive care
and JSON files are read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplan.errors import FileError, InputError
from counterplan.runs.question import COHORT, DISCRETE, ICU, SCHEMA
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.episodes import open_episodes
from counterplan.tables.parts import Recorded, episodes_to_bytes
from counterplan.tables.stays import CohortLayout, layout_of, stays_for

if TYPE_CHECKING:
    from counterplan.tables.schema import Schema

Model = TabularMDP | NeuralSCM


@dataclass(frozen=True, eq=False)
class Input:
    """Episodes that can be read.

    about       what they are about, for `open_explainer`
    read        gives them one after another
    outcomes    names of what is told of an episode besides
    features    names of state columns, none for discrete states
    components  names of the components of actions, likewise
    noun        what an episode is called
    notes       lines about the table, once it has been read
    dropped     why each episode that is left out is left out, once the table has been read
    """

    about: Mapping[str, Any]
    read: Callable[[], Iterable[Recorded]]
    outcomes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    noun: str = "episode"
    notes: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)

    def parts(self, size: int) -> Iterator[bytes]:
        """The episodes, `size` at a time, as files."""
        every = iter(self.read())
        while part := list(islice(every, size)):
            yield episodes_to_bytes(part, self.features, self.components)


def open_input(path: Any, model: Model, model_path: Path, schema: Schema | None) -> Input:
    """What there is to explain in a file or frame by a model; by the model's own schema if none is
    given."""
    own = _own_schema(model, model_path)
    schema = own if schema is None else schema
    if schema is not None:
        return _by_schema(path, model, model_path, schema)
    if not isinstance(path, Path) and isinstance(model, NeuralSCM):
        raise InputError(f"{model_path}: remembers no schema: give one for the table")
    is_stays = isinstance(path, Path) and layout_of(path) is not None
    if isinstance(model, NeuralSCM) != is_stays:
        raise FileError(_mismatch(path, model_path, is_stays))
    if isinstance(model, NeuralSCM):
        return _stays(path, model, model_path)
    return _discrete(path, model)


def _own_schema(model: Model, model_path: Path) -> Schema | None:
    """What a model remembers of the table it was learned from."""
    from counterplan.tables.layout import layout_of_model, means_of_model

    try:
        own, _ = layout_of_model(model), means_of_model(model)
    except InputError as problem:
        raise FileError(f"{model_path}: {str(problem).splitlines()[0]}") from None
    return None if own is None else own.schema


def only(asked: Sequence[str], path: Path, given: Input) -> Input:
    """The same input without the episodes that are not asked for; each is read once."""
    wanted = list(dict.fromkeys(asked))
    read = given.read

    def chosen() -> Iterator[Recorded]:
        first: list[str] = []
        left, count = set(wanted), 0
        for one in read():
            name = one.episode.id or ""
            count += 1
            if len(first) < 5:
                first.append(name)
            if name in left:
                left.remove(name)
                yield one
        for name in wanted:
            if name in given.dropped:
                reason = given.dropped[name]
                raise FileError(f"{path}: {given.noun} {name!r} is left out: {reason}")
            if name in left:
                shown = ", ".join(map(repr, first))
                raise FileError(
                    f"{path}: has no {given.noun} {name!r}; the first of its {count} are {shown}"
                )

    return replace(given, read=chosen)


def _mismatch(path: Path, model_path: Path, is_stays: bool) -> str:
    if is_stays:
        return (
            f"{model_path}: holds a model of discrete states, but {path} is a cohort table; use "
            "`counterplan fit` on such a table to get a neural model"
        )
    return (
        f"{model_path}: holds a neural model, but {path} is no cohort table (with the columns "
        "icustayid, bloc, ... or episode_id, t, a_vaso, a_iv, ...); give one, or a --schema"
    )


def _stays(path: Path, model: NeuralSCM, model_path: Path) -> Input:
    layout = layout_of(path)
    assert layout is not None
    kind = COHORT if isinstance(layout, CohortLayout) else ICU
    notes: list[str] = []
    dropped: dict[str, str] = {}

    def read() -> list[Recorded]:
        stays, _ = stays_for(model, model_path, path)
        notes.append(f"{stays.summary}.")
        dropped.update(stays.dropped)
        return stays.recorded()

    names = layout.features, layout.actions
    return Input({"kind": kind}, read, ("died",), *names, "stay", notes, dropped)


def _discrete(path: Any, mdp: TabularMDP) -> Input:
    def read() -> Iterator[Recorded]:
        states, actions = mdp.state_labels or mdp.n_states, mdp.action_labels or mdp.n_actions
        with open_episodes(path, states, actions, rewards=False) as table:
            yield from table

    return Input({"kind": DISCRETE}, read)


def _by_schema(path: Any, model: Model, model_path: Path, schema: Schema) -> Input:
    from counterplan.tables.layout import SchemaLayout, means_of_model
    from counterplan.tables.reader import open_table

    layout = SchemaLayout(schema)
    _check_fit(model, model_path, layout)
    means = means_of_model(model)
    names = ((), ()) if schema.is_discrete else (layout.features, layout.actions)
    outcomes = tuple(column.name for column in schema.of("outcome"))
    about = {"kind": SCHEMA, "schema": schema.as_dict()}
    notes: list[str] = []

    def read() -> Iterator[Recorded]:
        with open_table(path, schema, means) as table:
            notes.append(f"{table.summary()}.")
            yield from table

    return Input(about, read, outcomes, *names, notes=notes)


def _check_fit(model: Model, model_path: Path, layout: Any) -> None:
    """Raise unless a model is about what a schema describes."""
    if isinstance(model, NeuralSCM):
        if layout.states is not None:
            raise FileError(
                f"{model_path}: holds a neural model, but the states of the schema are discrete; "
                "give a model learned with this schema"
            )
        try:
            model.check_schema(layout.features, layout.actions)
        except InputError as problem:
            raise FileError(
                f"{model_path}: does not fit the schema: {problem}; give another"
            ) from None
        return
    if layout.states is None:
        raise FileError(
            f"{model_path}: holds a model of discrete states, but those of the schema are "
            "continuous; give a model learned with this schema"
        )
    sizes = (model.n_states, model.n_actions)
    if sizes[0] != len(layout.states) or sizes[1] - len(layout.choices) not in (0, 1):
        raise FileError(
            f"{model_path}: has {sizes[0]} states and {sizes[1]} actions, but those of the schema "
            f"combine to {len(layout.states)} and {len(layout.choices)}; give a model learned with "
            "this schema"
        )
