"""An invented infection whose counterfactuals are known, in four versions: one that a
location-scale model can learn, and three that break it.

x is the logarithm of the viral load, m the immunity, a the dose of a drug in [0, 1]. In one day

    x' = 0.9 x + 0.5 - 0.5 m - a m + (0.1 + 0.03 |x|) u_x        the drug needs immunity to work
    m' = 0.8 m + 0.25 tanh(x / 3) - 0.3 a + 0.05 u_m             and costs some

with normal noise, so the load itself moves by factors, and more unpredictably the higher it is.
Doctors give more where the load is higher, with habits of their own. The versions:

    plain     as above: location-scale noise, everything that matters is in the state
    hidden    a virulence w that stays with the patient is seen by the doctor, who gives more, and
              missing in the data: x' has 0.25 w more (unobserved confounding)
    response  luck decides how well a dose works: a m is multiplied by exp(0.7 v - 0.245), v normal.
              Without a dose nothing shows v (two noises in one feature: no point abduction)
    flipped   who is lucky without the drug is unlucky with it: u_x counts as -u_x where a > 0. The
              law of x' is that of `plain`, so no data can tell the two apart

The noise that was drawn is kept with each patient: replaying it gives the true counterfactual in
all four, whether or not it can be inferred from what was observed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.errors import InputError

FEATURES = ("log load", "immunity")
DOSES = np.linspace(0.0, 1.0, 4)[:, None]
VERSIONS = ("plain", "hidden", "response", "flipped")
HORIZON = 12
VIRULENCE, RESPONSE = 0.25, 0.7


@dataclass(frozen=True, eq=False)
class Patient:
    """What was observed, and what only a simulator knows.

    noise      (T-1, 3) u_x, u_m and v
    virulence  w
    """

    episode: Episode
    noise: FloatArray
    virulence: float


@dataclass(frozen=True)
class Infection:
    """The process in one of its versions."""

    version: str = "plain"

    def __post_init__(self) -> None:
        if self.version not in VERSIONS:
            raise InputError(
                f"unknown version {self.version!r} of the infection: use one of "
                f"{', '.join(VERSIONS)}"
            )

    def step(
        self, states: FloatArray, doses: FloatArray, noise: FloatArray, virulence: FloatArray
    ) -> FloatArray:
        """(n, 2) the next states, from states (n, 2), doses (n,), noise (n, 3), virulence (n,)."""
        x, m = states.T
        luck, own, response = noise.T
        works = np.exp(RESPONSE * response - RESPONSE**2 / 2) if self.version == "response" else 1.0
        if self.version == "flipped":
            luck = np.where(doses > 0.0, -luck, luck)
        load = 0.9 * x + 0.5 - 0.5 * m - doses * m * works + (0.1 + 0.03 * np.abs(x)) * luck
        if self.version == "hidden":
            load = load + VIRULENCE * virulence
        immunity = 0.8 * m + 0.25 * np.tanh(x / 3.0) - 0.3 * doses + 0.05 * own
        return np.column_stack([load, immunity])

    def simulate(self, patients: int, seed: Seed = 0) -> list[Patient]:
        """Patients with twelve days each; actions are indices into `DOSES`."""
        n = whole_number(patients, "patients", minimum=1)
        rng = generator(seed)
        noise = rng.standard_normal((HORIZON - 1, n, 3))
        virulence = rng.standard_normal(n)
        states = [np.column_stack([rng.normal(3.0, 1.0, n), rng.normal(0.7, 0.2, n)])]
        chosen: list[IntArray] = []
        for t in range(HORIZON - 1):
            chosen.append(self._treated(states[-1][:, 0], virulence, rng))
            states.append(self.step(states[-1], DOSES[chosen[-1], 0], noise[t], virulence))
        courses, actions = np.stack(states, axis=1), np.stack(chosen, axis=1)
        return [
            Patient(Episode(courses[i], actions[i], id=f"{i}"), noise[:, i], float(virulence[i]))
            for i in range(n)
        ]

    def replay(self, patient: Patient, sequences: IntArray) -> FloatArray:
        """(n, T, 2) what sequences of actions (n, T-1) would truly have brought the patient."""
        n = len(sequences)
        states = [np.repeat(patient.episode.states[:1], n, axis=0)]
        for t, noise in enumerate(patient.noise):
            doses = DOSES[sequences[:, t], 0]
            same = np.broadcast_to(noise, (n, 3))
            states.append(self.step(states[-1], doses, same, np.full(n, patient.virulence)))
        return np.stack(states, axis=1)

    def _treated(self, x: FloatArray, virulence: FloatArray, rng: np.random.Generator) -> IntArray:
        """What doctors give who see the load and, in the hidden version, the virulence."""
        seen = 0.3 * virulence if self.version == "hidden" else 0.0
        wanted = (x - 0.5) / 4.0 + seen + 0.35 * rng.standard_normal(len(x))
        return np.rint(np.clip(wanted, 0.0, 1.0) * (len(DOSES) - 1)).astype(np.int64)


def reward() -> LinearReward:
    """Minus the logarithm of the load, summed over the days."""
    return LinearReward([-1.0, 0.0])
