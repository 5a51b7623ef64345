"""Review one death of the ICU-Sepsis model: what to change, how sure it is, what it rests on."""

import counterplan as cp

sepsis = cp.domains.icu_sepsis.load()
mdp = sepsis.mdp
patient = next(e for e in sepsis.sample_episodes(400, seed=1) if sepsis.died(e) and len(e) >= 10)
frontier = cp.frontier(mdp, patient, k_max=3)
best = frontier[3]

print(f"{patient.id}: died after {len(patient) - 1} steps")
for k, value in enumerate(frontier.values):
    print(f"  k = {k}: chance of survival {value:.1%}")

print("changes, with their probabilities:")
probabilities = best.change_probabilities()
for t, row in enumerate(probabilities):
    for action in row.argsort()[::-1]:
        if row[action] >= 0.05:
            print(
                f"  step {t}: {mdp.action_name(patient.actions[t])} -> "
                f"{mdp.action_name(action)} ({row[action]:.0%})"
            )

low, high = cp.value_interval(mdp, patient, best)
robust = cp.robust_explain(mdp, patient, k=3)
print(f"certificate: value {best.value:.4f}, bound {best.bound:.4f}, {best.status.advice}")
print(f"over all causal models that fit the data: {low:.1%} to {high:.1%}")
print(f"another plan guarantees {robust.value:.1%} in every one of them")
