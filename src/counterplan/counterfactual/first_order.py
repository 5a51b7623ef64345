"""A certified first-order bound on what can still be earned.

Let s_t be the observed states, F_t(s, a) the counterfactual step, d_{t,a} = F_t(s_t, a) - s_{t+1}
(zero for the observed action) and l the budget spent. Any state that l units can reach differs from
s_t by at most r_{t,l} in norm and box_{t,l} in each feature; over that region (Slopes)

    F_t(s, a) - F_t(s_t, a) = J_a (s - s_t) + e,    |x . e| <= eta_a(x) ||s - s_t||
    ||F_t(s, a) - F_t(s_t, a)|| <= K_a ||s - s_t||

Then V(s, l, t) <= U(s, l, t) = max_a  C_a + p_a . (s - s_t) + q_a ||s - s_t||  with one piece for
each action that may be taken, l_a = l + cost_a and

    C_a = R(s_t) + b_{t+1,l_a} + g_{t+1,l_a} . d_{t,a} + rho_{t+1,l_a} ||d_{t,a}||
    p_a = c + J_a^T g_{t+1,l_a}
    q_a = r_R + eta_a(g_{t+1,l_a}) + K_a rho_{t+1,l_a}

where R(s) - R(s_t) <= c . (s - s_t) + r_R ||s - s_t||. One step further back the pieces are
replaced by a single cone b + g . (s - s_t) + rho ||s - s_t|| above them all:

    b = max_a C_a,    rho >= ||p_a - g|| + q_a - (b - C_a) / r_{t,l}    for all a

A piece that is worth less at the centre may rise faster and still stay below the cone within the
region. g is chosen to make rho small. Proof: induction on t, splitting F_t(s, a) - s_{t+1} into
d_{t,a} and F_t(s, a) - F_t(s_t, a). Everything is rounded outwards, so that the bound holds as
computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.sequence import SequenceSetting
from counterplan.errors import NotApplicableError
from counterplan.scm.point import Region, Slopes

# Every computed term is enlarged by more than its rounding.
OUTWARD = 1e-12


class Piece(NamedTuple):
    """max over pieces of constant + slope . (s - s_t) + steepness ||s - s_t||.

    constant (n,), slope (n, M), steepness (n,); M moving features
    """

    constant: FloatArray
    slope: FloatArray
    steepness: FloatArray


class Cone(NamedTuple):
    """peak + slope . (s - s_t) + steepness ||s - s_t||."""

    peak: float
    slope: FloatArray
    steepness: float


@dataclass(frozen=True, eq=False)
class Local:
    """One step from a region, for the actions that may be taken there.

    actions  (n,) their indices
    spent    (n,) the budget spent after each
    jumps    (n, M) d_{t,a}
    slopes   of F_t over the region, None where only the constant is known
    growth   (n,) K_a
    """

    actions: IntArray
    spent: IntArray
    jumps: FloatArray
    slopes: Slopes | None
    growth: FloatArray
    fixed: int

    def transposed(self, directions: FloatArray) -> FloatArray:
        """(n, M) J_a^T x for directions (n, M)."""
        if self.slopes is None:
            return np.zeros_like(directions)
        jacobian = self.slopes.jacobian[:, self.fixed :, self.fixed :]
        return np.asarray(np.einsum("nij,ni->nj", jacobian, directions))

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n,) eta_a(x)."""
        if self.slopes is None:
            return np.asarray(self.growth * np.linalg.norm(directions, axis=1))
        padded = np.zeros((len(directions), self.fixed + directions.shape[1]))
        padded[:, self.fixed :] = directions
        return np.asarray(np.linalg.norm(self.slopes.remainder(padded)[:, self.fixed :], axis=1))

    def box_after(self, region: Region) -> FloatArray:
        """(n, M) how far each feature can be from s_{t+1} after each action."""
        if self.slopes is None:
            moved = np.repeat((self.growth * region.radius)[:, None], self.jumps.shape[1], axis=1)
        else:
            widest = np.abs(self.slopes.jacobian) + self.slopes.deviation
            moved = (widest @ region.box)[:, self.fixed :]
        return np.abs(self.jumps) + moved


class FirstOrder:
    """The bound of one problem, prepared for every step and spent budget."""

    def __init__(self, setting: SequenceSetting, larger: FirstOrder | None = None) -> None:
        """`larger`: the bound of the same problem with a larger budget, whose regions and slopes
        hold here too."""
        self._setting = setting
        self._fixed = setting.scm.fixed
        if larger is None:
            self._regions, self._locals = self._reach()
        else:
            self._regions, self._locals = larger._regions, larger._locals
        self._pieces: dict[tuple[int, int], Piece] = {}
        self._build()

    @property
    def name(self) -> str:
        """What the bound was made of."""
        with_slopes = any(local.slopes is not None for local in self._locals.values())
        return f"first-order bound from {'slopes' if with_slopes else 'Lipschitz constants only'}"

    def restricted(self, setting: SequenceSetting) -> FirstOrder:
        """The bound for a smaller budget, without asking the model again."""
        return FirstOrder(setting, larger=self)

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) upper bounds on the rewards from step t on, for states (n, D) with `used` spent."""
        setting = self._setting
        if t == setting.horizon - 1:
            return setting.reward(states)
        result = np.empty(len(states))
        away = (states - setting.states[t])[:, self._fixed :]
        distance = np.linalg.norm(away, axis=1) * (1.0 + OUTWARD)
        for spent in np.unique(used):
            rows = used == spent
            piece = self._pieces[t, int(spent)]
            heights = piece.constant + away[rows] @ piece.slope.T
            heights += distance[rows, None] * piece.steepness
            result[rows] = heights.max(axis=1)
        return _up(result)

    def _reach(self) -> tuple[dict[tuple[int, int], Region], dict[tuple[int, int], Local]]:
        """Regions that hold every reachable state, and the steps from them, forward in time."""
        setting = self._setting
        D = setting.states.shape[1]
        regions = {(0, 0): Region(setting.states[0], 0.0, np.zeros(D))}
        steps: dict[tuple[int, int], Local] = {}
        jumps = self._jumps()
        for t in range(setting.horizon - 1):
            for spent in sorted(spent for step, spent in regions if step == t):
                region = regions[t, spent]
                local = self._local(t, spent, region, jumps[t])
                steps[t, spent] = local
                self._extend(regions, t, region, local)
        return regions, steps

    def _jumps(self) -> list[FloatArray]:
        """(N, M) for each step: where each action leads, seen from the observed next state."""
        setting, found = self._setting, []
        for t in range(setting.horizon - 1):
            after = setting.replay.children(t, setting.states[t : t + 1])[0]
            jump = (after - setting.states[t + 1])[:, self._fixed :]
            jump[setting.observed[t]] = 0.0
            found.append(jump)
        return found

    def _local(self, t: int, spent: int, region: Region, jumps: FloatArray) -> Local:
        setting = self._setting
        after = spent + setting.costs_at(t)
        actions = np.flatnonzero(setting.allowed[t] & (after <= setting.k))
        vectors, noise = setting.vectors[t][actions], setting.noise[t]
        slopes = setting.scm.slopes(region, vectors, noise)
        constants = setting.step_constants
        if slopes is None and constants is None:
            raise NotApplicableError(
                f"{type(setting.scm).__name__} states slopes near some states only and no "
                "Lipschitz constants: provide one of them everywhere"
            )
        growth = np.full(len(actions), np.inf if constants is None else constants[t])
        if slopes is not None:
            growth = np.minimum(growth, _operator_norms(slopes, self._fixed))
        return Local(actions, after[actions], jumps[actions], slopes, growth, self._fixed)

    def _extend(
        self, regions: dict[tuple[int, int], Region], t: int, region: Region, local: Local
    ) -> None:
        """Enlarge the regions of the next step by what one step from here can reach."""
        radius = _up(np.linalg.norm(local.jumps, axis=1) + local.growth * region.radius)
        box = _up(local.box_after(region))
        # Nothing changed so far: the observed state itself, and no rounding to allow for.
        certain = (region.radius == 0.0) & (np.abs(local.jumps).max(axis=1) == 0.0)
        radius, box = np.where(certain, 0.0, radius), np.where(certain[:, None], 0.0, box)
        centre = self._setting.states[t + 1]
        for spent in np.unique(local.spent):
            rows = local.spent == spent
            old = regions.get((t + 1, int(spent)))
            widest = np.concatenate([np.zeros(self._fixed), box[rows].max(axis=0)])
            reach = float(radius[rows].max())
            if old is not None:
                widest, reach = np.maximum(widest, old.box), max(reach, old.radius)
            reach = min(reach, float(np.linalg.norm(widest)) * (1.0 + OUTWARD))
            regions[t + 1, int(spent)] = Region(centre, reach, widest)

    def _build(self) -> None:
        """Pieces and cones, backward in time."""
        from counterplan.counterfactual.cones import covering_cone

        setting, last = self._setting, self._setting.horizon - 1
        gradient = setting.reward.gradient(setting.states.shape[1])[self._fixed :]
        here = setting.reward(setting.states)
        cones = {
            (last, spent): Cone(float(here[last]), gradient, setting.reward.remainder)
            for t, spent in self._regions
            if t == last and spent <= setting.k
        }
        for t, spent in sorted(self._locals, reverse=True):
            if spent > setting.k:
                continue
            local = self._locals[t, spent]
            within = local.spent <= setting.k
            # Actions beyond this budget get any cone, and are left out below.
            ahead = [cones[t + 1, int(after)] for after in np.where(within, local.spent, spent)]
            piece = Piece(*(part[within] for part in self._piece(local, here[t], gradient, ahead)))
            self._pieces[t, spent] = piece
            cones[t, spent] = Cone(*covering_cone(*piece, self._regions[t, spent].radius))

    def _piece(self, local: Local, here: float, gradient: FloatArray, ahead: list[Cone]) -> Piece:
        """One piece for each action, from the cones that lie ahead of them."""
        slope = np.stack([cone.slope for cone in ahead])
        steepness = np.array([cone.steepness for cone in ahead])
        peak = np.array([cone.peak for cone in ahead])
        jump = np.linalg.norm(local.jumps, axis=1)
        constant = here + peak + (slope * local.jumps).sum(axis=1) + steepness * jump
        # What rounding can do depends on the terms, not on what is left after they cancel.
        size = np.abs(here) + np.abs(peak) + (np.linalg.norm(slope, axis=1) + steepness) * jump
        tilt = gradient + local.transposed(slope)
        steep = self._setting.reward.remainder + local.remainder(slope) + local.growth * steepness
        steep += OUTWARD * (np.linalg.norm(gradient) + local.growth * np.linalg.norm(slope, axis=1))
        return Piece(constant + OUTWARD * (1.0 + size), tilt, _up(steep))


def _operator_norms(slopes: Slopes, fixed: int) -> FloatArray:
    """(n,) upper bounds on ||J + E'|| for |E'| <= E, over the moving features."""
    jacobian = slopes.jacobian[:, fixed:, fixed:]
    deviation = slopes.deviation[:, fixed:, fixed:]
    # ||J||^16 <= ||(J^T J)^8||_F: close to the norm, and much cheaper than singular values.
    power = np.swapaxes(jacobian, 1, 2) @ jacobian
    for _ in range(3):
        power = power @ power
    norm = np.linalg.norm(power, axis=(1, 2)) ** (1 / 16)
    rows, columns = deviation.sum(axis=2).max(axis=1), deviation.sum(axis=1).max(axis=1)
    return _up(norm + np.sqrt(rows * columns))


def _up(values: FloatArray) -> FloatArray:
    return np.asarray(values + OUTWARD * (1.0 + np.abs(values)))
