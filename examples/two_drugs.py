"""Two drugs that only help together: draw what happened and what would have been best.

Writes two-drugs.png into the current folder.
"""

from pathlib import Path

import counterplan as cp
from counterplan.domains.interacting import DRUGS, interacting_episode
from counterplan.viz.figures.trajectory import Move, trajectory_figure
from counterplan.viz.style import png_bytes

problem = interacting_episode(seed=0, horizon=12)
best = cp.explain(problem.scm, problem.episode, k=2, actions=problem.actions, reward=problem.reward)
moves = tuple(
    Move(change.t, drug, float(before), float(after))
    for change in best.changes
    for drug, before, after in zip(
        DRUGS,
        problem.actions[change.observed],
        problem.actions[change.alternative],
        strict=True,
    )
    if before != after
)
for move in moves:
    print(f"step {move.t}: {move.what} drug {move.before:g} -> {move.after:g}")
print(f"outcome {best.factual_value:.2f} -> {best.value:.2f}, {best.status}")

figure = trajectory_figure(
    problem.episode.states[:, 0], best.states[:, 0], moves, feature="burden of disease"
)
Path("two-drugs.png").write_bytes(png_bytes(figure))
