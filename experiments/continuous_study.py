"""The sepsis study of the 2023 paper (section 5) on simulated patients: data, models, searches.

A cohort is simulated and written and read as the real table would be; a neural model is learned
from it for each pair (L_h, L_phi). Patients are the first stays of at least 12 rows, cut to their
first 12 (48 hours), the paper's horizon. The two searches that figures compare:

    paper's  textbook A* with the anchor bound: one node at a time, no incumbent; every child counts
    ours     the default solver: first-order bound, batches, incumbent, spent budgets rolled out;
             what the incumbent rules out is never opened and does not count

Seconds are CPU time of the whole process, bound included: the linear algebra may use threads of its
own. So nothing else runs meanwhile: searches that are timed take turns. Idle threads of the linear
algebra spin for a while, which counts as well; OPENBLAS_NUM_THREADS=1, set before the start, avoids
that, and `python -m experiments` sets it unless the environment does.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan import __version__
from counterplan.core.episode import Episode
from counterplan.core.limits import Limits
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.anchors import AnchorHeuristic
from counterplan.counterfactual.continuous.astar import AStar
from counterplan.counterfactual.continuous.claims import SequenceExplanation
from counterplan.counterfactual.explain import explain
from counterplan.domains import sepsis
from counterplan.scm.learned import NeuralSCM
from counterplan.scm.training import Training
from counterplan.scm.transitions import Transitions
from experiments.figure import Options

if TYPE_CHECKING:
    from counterplan.domains.sepsis import SepsisCohort

HORIZON = 12
LOCATION, SCALE = 1.0, 0.1  # the paper's L_h and L_phi
OURS = "first-order"
PAPERS = "mc-lipschitz"
# Textbook A* takes milliseconds for a node.
PAPERS_NODES, OUR_NODES = 25_000, 500_000


@dataclass(frozen=True)
class Sizes:
    """How large a study is.

    simulated  patients in the cohort
    hidden     units of the networks (the paper: 200)
    epochs     of training (the paper: 100)
    """

    simulated: int = 1000
    hidden: int = 64
    epochs: int = 60


FULL, QUICK = Sizes(), Sizes(simulated=400, hidden=32, epochs=40)


class Cell(NamedTuple):
    """One search.

    bound     'first-order', or the paper's with the strategy of its anchors
    amount    how many anchors (if `sized`) or alternatives (M) it has, 0 for ours
    location  L_h of the model
    """

    bound: str
    amount: int
    location: float
    k: int
    patient: int
    sized: bool = False


class Study:
    """The cohort and what was learned from it, made when first needed."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.sizes = QUICK if options.quick else FULL
        self._models: dict[float, NeuralSCM] = {}
        self._lock = threading.RLock()

    def settings(self, **more: Any) -> dict[str, Any]:
        """What kept cells depend on."""
        return {
            "counterplan": __version__,
            "quick": self.options.quick,
            "seed": self.options.seed,
            "nodes": [PAPERS_NODES, OUR_NODES],
            "seconds": "process",
            "outcome": "factual",
            **asdict(self.sizes),
            **more,
        }

    @cached_property
    def cohort(self) -> SepsisCohort:
        """Simulated, written and read."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cohort.csv"
            sepsis.write_cohort(path, self.sizes.simulated, self.options.seed)
            return sepsis.read_cohort(path)

    @cached_property
    def transitions(self) -> Transitions:
        """All transitions of the cohort."""
        episodes = self.cohort.episodes
        return Transitions.collect(episodes, None, sepsis.FEATURES, sepsis.ACTIONS)

    @cached_property
    def population(self) -> FloatArray:
        """(n, 12) every state of the cohort."""
        return np.concatenate([episode.states for episode in self.cohort.episodes])

    @cached_property
    def patients(self) -> list[Episode]:
        """The stays that are long enough, cut to the horizon."""
        return [
            Episode(episode.states[:HORIZON], episode.actions[: HORIZON - 1], id=episode.id)
            for episode in self.cohort.episodes
            if len(episode) >= HORIZON
        ]

    def model(self, location: float = LOCATION) -> NeuralSCM:
        """The model with this L_h."""
        with self._lock:
            if location not in self._models:
                self._models[location] = self._fitted(location)
            return self._models[location]

    def search(self, cell: Cell) -> dict[str, Any]:
        """One search, as a row of a table."""
        nodes = OUR_NODES if cell.bound == OURS else PAPERS_NODES
        # Other threads wait for their turn, be it to train or to search.
        with self._lock:
            model, episode = self.model(cell.location), self.patient(cell.patient)
            solver = self.solver(cell)
            started = time.process_time()
            found = explain_patient(model, episode, cell.k, solver, Limits(nodes=nodes))
            seconds = time.process_time() - started
        return {
            "episode_id": episode.id,
            "factual": found.factual_value,
            "value": found.value,
            "status": found.status.value,
            "effective_branching_factor": found.stats["effective_branching_factor"],
            "nodes_expanded": int(found.stats["nodes_expanded"]),
            "nodes_added": int(found.stats["nodes_added"]),
            "cpu_seconds": seconds,
            "method": found.method,
        }

    def patient(self, number: int) -> Episode:
        """One of the patients; all threads wait for whoever makes the cohort first."""
        with self._lock:
            return self.patients[number]

    def solver(self, cell: Cell) -> AStar:
        """The search that a cell asks for."""
        if cell.bound == OURS:
            return AStar()
        heuristic = AnchorHeuristic(
            cell.bound,
            samples=cell.amount,
            seed=self.options.seed,
            size=cell.amount if cell.sized else None,
            population=self.population if cell.bound == "facility-location" else None,
        )
        return AStar(heuristic, batch=1, incumbent=False, rollout=False)

    def _fitted(self, location: float) -> NeuralSCM:
        settings = Training(scaling=sepsis.scaling(self.cohort), progress=False)
        model = NeuralSCM.fit(
            self.transitions,
            hidden=self.sizes.hidden,
            epochs=self.sizes.epochs,
            lipschitz=(location, SCALE),
            seed=self.options.seed,
            fixed=len(sepsis.FIXED),
            training=settings,
        )
        # Compiles what is not yet compiled, so that no search has to wait for it.
        for solver in (AStar(), AStar(AnchorHeuristic(samples=2), batch=1, rollout=False)):
            explain_patient(model, self.patients[0], 1, solver, Limits(nodes=2))
        return model


def explain_patient(
    model: NeuralSCM, episode: Episode, k: int, solver: AStar, limits: Limits | None = None
) -> SequenceExplanation:
    """The explanation of one sepsis patient."""
    return explain(
        model,
        episode,
        k,
        actions=sepsis.action_set(episode),
        reward=sepsis.reward(),
        solver=solver,
        limits=limits or Limits(),
    )
