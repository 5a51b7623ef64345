"""Two drugs that only help together: draw what happened and what would have been best.

Writes two-drugs.png for print and two-drugs.html for screens into the current folder.
"""

import counterplan as cp
from counterplan.domains.interacting import DRUGS, FEATURES, interacting_episode

problem = interacting_episode(seed=0, horizon=12)
best = cp.explain(problem.scm, problem.episode, k=2, actions=problem.actions, reward=problem.reward)
labels = cp.viz.Labels.named(FEATURES, DRUGS, problem.actions)

for change in best.changes:
    before, after = problem.actions[change.observed], problem.actions[change.alternative]
    for drug, old, new in zip(DRUGS, before, after, strict=True):
        if old != new:
            print(f"step {change.t}: {drug} drug {old:g} -> {new:g}")
print(f"outcome {best.factual_value:.2f} -> {best.value:.2f}, {best.status}")

figure = cp.viz.trajectory_figure(best, labels, feature="burden")
cp.viz.save_figure(figure, "two-drugs.png")
