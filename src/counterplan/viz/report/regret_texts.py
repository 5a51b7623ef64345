"""What a report of executed plans says of its problem, how to read it, what it does not claim."""

from __future__ import annotations

from counterplan.viz.report.regret_source import RegretSource

TITLES = {
    "bunkering": "fuel for a ship: how much to buy at each port, prices being known on arrival",
    "hybrid": "a hybrid vehicle: gas or electricity at each step, the road being seen step by step",
    "options": "an option: whether to exercise it now or to hold it",
    "basket": "a basket of options: which to exercise now and which to hold",
}


def problem_facts(source: RegretSource) -> list[tuple[str, str]]:
    """What was decided about."""
    about = source.run.manifest.task["description"]
    asked = dict(about["problem"])
    domain = str(asked.pop("domain", ""))
    pairs = [
        ("Problem", TITLES.get(domain, domain)),
        ("Decisions", f"{source.problem.horizon} for each scenario"),
        ("Better", "lower costs" if source.is_cost else "higher values"),
    ]
    pairs += [(name.replace("_", " ").capitalize(), str(value)) for name, value in asked.items()]
    for name in sorted(source.run.manifest.task["files"]):
        pairs.append((f"File {name}", "is part of the run's folder"))
    policies = sorted({str(row["policy"]) for row in source.rows if row["policy"]})
    if policies:
        pairs.append(("Policy to compare with", ", ".join(policies)))
    if about.get("planner"):
        clip = "with" if about.get("clip") else "without"
        pairs.append(
            (
                "Planner",
                f"{about['planner']}, {about['simulations']:,} simulations for a decision, "
                f"{clip} clipping",
            )
        )
    return pairs


def taken_for_granted() -> list[str]:
    """What no calculation can check."""
    return [
        "Decisions do not move what is seen: prices, roads and the like come as they come.",
        "The law of what is seen (its probabilities) is taken as known. What decisions lost in "
        "expectation is right only as far as that law is.",
        "Whoever decided knew what had been seen so far, and nothing of what was to come.",
    ]


def reading(source: RegretSource) -> list[str]:
    """For those who see such a report for the first time."""
    word = "paid" if source.is_cost else "earned"
    texts = [
        f"“As executed” is what the decisions {word}. “Hindsight” is the best that was possible "
        "on this path had all of it been known: an exact bound, which nobody could have reached "
        "but by luck.",
        "“Policy” is what the best policy without foresight would have brought on the same path; "
        "where decisions were lucky, they can be better than it.",
        "“Lost in expectation” is what decisions lost when they were made, on average over all "
        "that could have come. There is no luck in it: judge decisions by it. It is known where "
        "the optimum can be computed.",
        "“Better” beside a decision is what the policy would have done in its place, with what was "
        "there at that moment.",
    ]
    if any(row["planned"] is not None for row in source.rows):
        texts.append(
            "“Planner” decided along the path step by step, as in use: it saw no more than whoever "
            "decided."
        )
    return texts


def not_claimed() -> list[str]:
    """What the numbers must not be taken for."""
    return [
        "It is no forecast. It judges what was decided, by a model of what could have come.",
        "Regret against hindsight is no reproach: it holds what could not be known against those "
        "who decided.",
        "The ranking picks the largest losses, some of which may be due to an error of the model.",
        "What the model leaves out (contracts, weather, wear) may have been the reason for a "
        "decision.",
    ]
