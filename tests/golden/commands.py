"""The cases whose outputs are frozen: every command, in its main variants."""

from __future__ import annotations

from pathlib import Path

from . import inputs, library
from .playing import (
    Ask,
    Case,
    command,
    commands,
    explorer,
    json_file,
    listing,
    page,
    table_file,
    tables,
    tensors,
    text_file,
    then,
)

TABLES = ("episodes", "results", "trajectories")
LABELS = "--state-labels bad,poor,fair,good --action-labels rest,walk,run"
FIT_CLINIC = f"fit clinic.csv -o clinic.safetensors {LABELS} --value-unobserved --json"
FIT_STAYS = "fit stays.csv --schema stays.toml -o trained.safetensors --hidden 16 --epochs 3 --json"
EXPLAIN_CLINIC = "explain clinic.csv --model clinic.safetensors"
EXPLAIN_STAYS = "explain stays.csv --model model.safetensors --nodes 2000"
EXPLAIN_PAIN = "explain pain.csv --model pain.safetensors"


def _pin() -> None:
    inputs.pin("trained.safetensors", "model.safetensors")


def _learned(line: str) -> dict[str, object]:
    return {line: command(line, trained=True), "pinned": then(_pin)}


CASES: dict[str, Case] = {}

# --- Discrete ---------------------------------------------------------------------------------

CASES["discrete-fit"] = Case(
    inputs.clinic,
    {
        **commands(
            FIT_CLINIC,
            "fit clinic.csv -o bare.safetensors",
            "fit clinic.csv -o prior.safetensors --prior 0.5 --no-support --json",
            f"fit clinic.csv -o near.safetensors --neighbour-prior {LABELS}",
            "fit noisy.csv -o mean.safetensors --mean-rewards --json",
        ),
        **{
            name: tensors(f"{name}.safetensors")
            for name in ("clinic", "bare", "prior", "near", "mean")
        },
    },
)


def _clinic_and_ward() -> None:
    inputs.clinic()
    inputs.ward()


CASES["discrete-explain"] = Case(
    _clinic_and_ward,
    {
        **commands(
            FIT_CLINIC,
            f"{EXPLAIN_CLINIC} --k 2 --json",
            f"{EXPLAIN_CLINIC} --k 2 --all-k --episode c00 --episode c05 --json",
            f"{EXPLAIN_CLINIC} --k 0,2 --robust --episode c00 --json",
            f"{EXPLAIN_CLINIC} --k 3 --nodes 20 --episode c00 --json",
            f"{EXPLAIN_CLINIC} --k 3 --gap 0.5 --episode c00 --json",
            *(
                f"{EXPLAIN_CLINIC} --k 2 --solver {solver} --seed 3 --episode c00 --json"
                for solver in ("greedy", "noisy-greedy", "random")
            ),
            "explain clinic.parquet --model clinic.safetensors --k 1 --episode c00 --json",
            "explain clinic.json --model clinic.safetensors --k 1 --episode c00 --json",
            f"{EXPLAIN_CLINIC} --k 1",
            f"{EXPLAIN_CLINIC} --k 2 --all-k --robust --episode c00",
            f"{EXPLAIN_CLINIC} --k 1 -o one.json",
            f"{EXPLAIN_CLINIC} --k 1 --robust -o one.csv",
            "explain ward.csv --model model.json --k 2 --robust --json",
            "explain ward.csv --model model.json --k 1",
        ),
        "one.json": json_file("one.json"),
        "one.csv": table_file("one.csv"),
    },
)

CASES["discrete-run"] = Case(
    _clinic_and_ward,
    {
        **commands(
            FIT_CLINIC,
            f"{EXPLAIN_CLINIC} --k 2 --all-k --robust -o out --workers 1 --json",
            f"{EXPLAIN_CLINIC} --k 2 --all-k --robust -o out --workers 1",
            "cases out --json --limit 5",
            "cases out --k 1 --min-improvement 0.5 --by relative --json",
            "cases out --supported --max-changes 1 --by factual --json",
            "cases out --changed-action run --status optimal --by gap --limit 3 --json",
            "cases out --limit 4",
            "cases out --k 1 -o cases.csv",
            "cases out -o cases.parquet --json --limit 1",
            "explain zoe.csv --model other.json --k 1 -o failed --workers 1",
            "cases failed --status failed --json",
            "cases failed --status failed",
            "report out --cases 2 -o report.html",
            "report out --case c00 --k 1 -o case.html --pseudonym-key key.txt",
            "report out --cases 0 -o none.html --json",
        ),
        "files": listing("out"),
        "manifest": json_file("out/manifest.json"),
        "done": json_file("out/done/00000.json"),
        **tables("out", *TABLES),
        **tables("failed", "results"),
        "cases.csv": table_file("cases.csv"),
        "cases.parquet": table_file("cases.parquet"),
        "report": page("report.html"),
        "report of a case": page("case.html"),
    },
)

CASES["discrete-schema"] = Case(
    inputs.pain,
    {
        **commands(
            "schema pain.csv",
            "schema pain.csv --json",
            "schema pain.csv -o draft.toml",
            "fit pain.csv --schema pain.toml -o pain.safetensors --value-unobserved --json",
            "fit pain.csv --schema pain.toml -o other.safetensors --prior 2",
            f"{EXPLAIN_PAIN} --k 2 --json",
            f"{EXPLAIN_PAIN} --k 1 --schema pain.toml --episode n3",
            f"{EXPLAIN_PAIN} --k 1,2 -o out --workers 1 --json",
            "cases out --outcome cured=1 --json --limit 3",
            "cases out --changed-action dose --limit 3",
        ),
        "draft.toml": text_file("draft.toml"),
        "model": tensors("pain.safetensors"),
        "manifest": json_file("out/manifest.json"),
        **tables("out", *TABLES),
    },
)

CASES["icu-sepsis"] = Case(
    inputs.icu_sepsis,
    commands(
        "explain icu.csv --model icu.safetensors --k 2 --json",
        "explain icu.csv --model icu.safetensors --k 2 --nodes 5000 --json",
        "explain icu.csv --model icu.safetensors --k 1 --solver greedy",
    ),
)

# --- Continuous -------------------------------------------------------------------------------

CASES["continuous-explain"] = Case(
    inputs.stays,
    {
        **commands("schema stays.csv", "schema stays.csv --json"),
        **_learned(FIT_STAYS),
        "trained": tensors("trained.safetensors", trained=True),
        "model": tensors("model.safetensors"),
        **commands(
            f"{EXPLAIN_STAYS} --k 1 --json",
            f"{EXPLAIN_STAYS} --k 2 --all-k --episode 3 --episode 8 --json",
            f"{EXPLAIN_STAYS} --k 2 --max-move 1 --episode 3 --json",
            f"{EXPLAIN_STAYS} --k 3 --gap 1 --episode 3 --json",
            "explain stays.csv --model model.safetensors --k 3 --nodes 3 --episode 3 --json",
            *(
                "explain stays.csv --model model.safetensors --k 2 --episode 3 --json "
                f"--seed 3 --solver {solver}"
                for solver in ("greedy", "noisy-greedy", "top-k", "random")
            ),
            f"{EXPLAIN_STAYS} --k 1",
            f"{EXPLAIN_STAYS} --k 1 --schema stays.toml -o one.csv",
            f"{EXPLAIN_STAYS} --k 1 --episode 3 -o one.json",
        ),
        "one.csv": table_file("one.csv"),
        "one.json": json_file("one.json"),
    },
)

CASES["continuous-run"] = Case(
    inputs.stays,
    {
        **_learned(FIT_STAYS),
        **commands(
            f"{EXPLAIN_STAYS} --k 0,1,2 -o out --workers 1 --json",
            "cases out --json --limit 4",
            "cases out --k 1 --outcome died=1 --changed-action fluids --json",
            "cases out --supported --limit 4",
            "report out --cases 1 -o report.html",
        ),
        "files": listing("out"),
        "manifest": json_file("out/manifest.json"),
        **tables("out", *TABLES),
        "report": page("report.html"),
    },
)

EXPLAIN_NEW = "explain new.csv --model model.safetensors"
CASES["sepsis-cohort"] = Case(
    inputs.cohort,
    {
        **_learned("fit cohort.csv -o trained.safetensors --hidden 16 --epochs 3 --json"),
        **commands(
            f"{EXPLAIN_NEW} --k 1 --nodes 200 --json",
            f"{EXPLAIN_NEW} --k 2 --max-move 1 --nodes 100 --json",
            f"{EXPLAIN_NEW} --k 2 --solver top-k",
            f"{EXPLAIN_NEW} --k 1 --nodes 200 -o out --workers 1",
            "cases out --json",
        ),
        **tables("out", "results"),
    },
)

CASES["icu-stays"] = Case(
    inputs.icu_stays,
    {
        **_learned("fit icu.csv -o trained.safetensors --hidden 16 --epochs 3 --json"),
        **commands(
            "explain icu.csv --model model.safetensors --k 1 --nodes 200 --json",
            "explain icu.csv --model model.safetensors --k 2 --solver greedy --episode 103",
        ),
    },
)

# --- Planning ---------------------------------------------------------------------------------

PLANS = (
    "bunkering",
    "bunkering --config B --planner ments --no-clip",
    "bunkering --prices global --step 3 --price 900 --level 17",
    "bunkering --capacity 60 --planner dents --seed 5",
    "bunkering --prices-csv prices.csv",
    "hybrid",
    "hybrid --step 4 --mode electric --level 3,5 --planner bts",
    "hybrid --modes 7 --capacity half",
    "hybrid --hidden",
    "hybrid --drive-cycle cycle.csv",
    "options",
    "options --config C --step 3 --price 34.5 --planner ments",
    "options --prices binomial",
    "basket",
    "basket --correlation 0.5 --step 48 --price 50,9,9 --level 1,0,1",
)
CASES["plan"] = Case(
    inputs.recorded,
    {
        **commands(*(f"plan {line} --simulations 40 --json" for line in PLANS)),
        **commands(
            *(f"plan {name} --simulations 40" for name in ("bunkering", "hybrid", "options")),
            "plan basket --simulations 20 --step 45 --price 35,12,9",
        ),
    },
)

DOMAINS = ("bunkering", "hybrid", "options", "basket")
CASES["scenarios"] = Case(
    inputs.voyages,
    {
        **commands(
            *(f"plan {name} --scenarios-template {name}.csv --seed 1 --json" for name in DOMAINS)
        ),
        **{f"{name}.csv": table_file(f"{name}.csv") for name in DOMAINS},
        **commands(
            *(f"plan {name} --scenarios {name}.csv --k 1 --json" for name in DOMAINS),
            "plan bunkering --scenarios voyages.csv --k 2 --planner uct --simulations 20 --json",
            "plan bunkering --scenarios voyages.csv",
            "plan bunkering --scenarios voyages.csv --k 2",
            "plan bunkering --scenarios seen.csv",
            "plan bunkering --scenarios seen.csv --json",
            "plan hybrid --scenarios hybrid.csv --hidden --json",
            "plan basket --scenarios-template again.csv",
        ),
    },
)

VOYAGES = "plan bunkering --scenarios voyages.csv --k 2 --simulations 20 -o out --workers 1"
CASES["scenario-run"] = Case(
    inputs.voyages,
    {
        **commands(
            f"{VOYAGES} --json",
            VOYAGES,
            "report out --cases 2 -o report.html",
            "report out --case wild -o case.html --json",
        ),
        "files": listing("out"),
        "manifest": json_file("out/manifest.json"),
        **tables("out", "episodes", "results", "decisions"),
        "report": page("report.html"),
        "report of a case": page("case.html"),
    },
)

# --- The explorer -----------------------------------------------------------------------------

CASES["explorer-discrete"] = Case(
    inputs.pain,
    {
        **commands(
            "fit pain.csv --schema pain.toml -o pain.safetensors --value-unobserved --json",
            f"{EXPLAIN_PAIN} --k 1,2 --robust -o out --workers 1 --json",
        ),
        "explorer": explorer(
            "out",
            Ask("api/run"),
            Ask("api/overview"),
            Ask("api/cases?limit=4"),
            Ask("api/cases?k=1&sort=steps&descending=false&limit=2&outcome=cured%3D1"),
            Ask("api/cases?search=n1&support=yes&max_changes=2&min_improvement=0.1"),
            Ask("api/case?id=n3"),
            Ask("api/case?id=n3&k=1"),
            Ask("api/what-if", {"id": "n3", "edits": [{"t": 1, "action": 2}]}),
            Ask("api/what-if", {"id": "n3", "edits": []}),
            Ask("api/jobs", {"kind": "solve", "id": "n3", "k": 3}, is_job=True),
            Ask(
                "api/jobs",
                {"kind": "solve", "id": "n3", "k": 2, "forbidden": [1, 2], "fixed": [1]},
                is_job=True,
            ),
            Ask("api/case?id=nobody"),
            Ask("api/what-if", {"id": "n3", "edits": [{"t": 99, "action": 0}]}),
            Ask("api/what-if", {"id": "n3", "edits": [{"t": 0, "action": 99}]}),
            Ask("api/cases?limit=many"),
            Ask("api/scenarios"),
            Ask("api/nothing"),
        ),
    },
)

CASES["explorer-continuous"] = Case(
    inputs.stays,
    {
        **_learned(FIT_STAYS),
        **commands(f"{EXPLAIN_STAYS} --k 0,1,2 -o out --workers 1 --json"),
        "explorer": explorer(
            "out",
            Ask("api/run"),
            Ask("api/overview"),
            Ask("api/cases?limit=3"),
            Ask("api/cases?sort=relative&k=1&changed=vaso&limit=2"),
            Ask("api/case?id=3"),
            Ask("api/case?id=3&k=1"),
            Ask(
                "api/what-if", {"id": "3", "edits": [{"t": 1, "action": 4}, {"t": 3, "action": 0}]}
            ),
            Ask(
                "api/jobs",
                {"kind": "solve", "id": "3", "k": 2, "forbidden": [5], "fixed": [0]},
                is_job=True,
            ),
            Ask("api/what-if", {"id": "3", "edits": [{"t": 5, "action": 0}]}),
        ),
    },
)

CASES["explorer-scenarios"] = Case(
    inputs.voyages,
    {
        **commands(f"{VOYAGES} --json"),
        "explorer": explorer(
            "out",
            Ask("api/run"),
            Ask("api/overview"),
            Ask("api/scenarios"),
            Ask("api/scenarios?sort=hindsight&descending=false&limit=2&status=optimal"),
            Ask("api/scenario?id=wild"),
            Ask("api/scenario?id=full"),
            Ask(
                "api/jobs",
                {"kind": "advise", "id": "wild", "t": 3, "planner": "uct", "simulations": 30},
                is_job=True,
            ),
            Ask("api/jobs", {"kind": "solve", "id": "wild", "k": 1}),
            Ask("api/scenario?id=nobody"),
        ),
    },
)

# --- The program itself -----------------------------------------------------------------------

COMMANDS = ("fit", "explain", "cases", "schema", "plan", "report", "serve", "demo")
CASES["help"] = Case(
    inputs.nothing,
    commands("--version", "--help", *(f"{name} --help" for name in COMMANDS)),
)


def _sessions() -> None:
    from experiments.simulated_sessions import write_sessions

    write_sessions("sessions.csv", 12, 0)


CASES["reproduce"] = Case(
    _sessions,
    {
        **commands(
            "python -m experiments --list --json",
            "python -m experiments discrete-fig3 --quick --data sessions.csv -o figures --json",
        ),
        "figures": listing("figures"),
        "discrete-fig3": table_file("figures/discrete-fig3.csv"),
    },
)


def _mistakes() -> None:
    inputs.ward()
    inputs.voyages()
    inputs.write("gap.csv", "episode_id,t,state,action\nann,0,0,0\nann,2,0,x\nann,1,-1,0\n")
    inputs.write("sales.csv", "shop,day,euros\na,1,2\n")
    inputs.write(
        "bad.toml", '[columns.x]\nrole = "stat"\n[columns.y]\nrole = "action"\nlow = "a"\n'
    )
    inputs.write("broken.json", '{"transitions": [[[0.5, 0.6]]]}')
    inputs.write("text.safetensors", "no model at all")
    inputs.write("dear.csv", "scenario_id,t,price,action\nv,0,dear,1\nv,1,3,-1\n")
    Path("folder").mkdir()


CASES["errors"] = Case(
    _mistakes,
    commands(
        "explian ward.csv",
        "explain ward.csv",
        "explain ward.csv --model model.json --kk 3",
        "explain ward.csv --model model.json --k x",
        "explain ward.csv --model model.json --solver best",
        "explain nothing.csv --model model.json",
        "explain folder --model model.json",
        "explain gap.csv --model model.json",
        "explain ward.csv --model text.safetensors",
        "explain ward.csv --model broken.json",
        "explain ward.csv --model model.json --episode zoe",
        "explain ward.csv --model model.json --max-move 1",
        "explain ward.csv --model model.json --solver top-k",
        "explain ward.csv --model model.json --workers 2",
        "explain ward.csv --model model.json --seconds 0",
        "fit sales.csv -o new.safetensors",
        "fit ward.csv -o new.txt",
        "fit ward.csv -o new.safetensors --hidden 3",
        "fit ward.csv -o new.safetensors --state-labels a",
        "fit ward.csv -o new.safetensors --schema bad.toml",
        "fit ward.csv -o new.safetensors --prior 1 --neighbour-prior",
        "schema nothing.csv",
        "cases folder",
        "cases absent",
        "report folder -o new.pdf",
        "report absent",
        "serve absent",
        "serve folder --token short",
        "plan sailing",
        "plan bunkering --config Z",
        "plan bunkering --mode gas",
        "plan bunkering --k 2",
        "plan bunkering --price nan",
        "plan bunkering --scenarios dear.csv",
        "plan hybrid --scenarios voyages.csv",
    ),
)

CASES["library"] = Case(inputs.clinic, library.STEPS)
