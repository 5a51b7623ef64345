"""Nonsense on the command line: every command, its numbers, choices and paths."""

from __future__ import annotations

from collections.abc import Callable

from .case import Case
from .changes import Change, folder, link, put, swap

FIT = "fit ward.csv -o m.safetensors"
LEARN = "fit cohort.csv -o m.safetensors"
MEASURED = "fit stays.csv --schema stays.toml -o m.safetensors"
EXPLAIN = "explain ward.csv -m model.json"
JUDGE = "plan bunkering --scenarios voyages.csv"
OWN = (
    r"stays\.csv: no column 'state' or 'action': found 'stay_id', .*; for a table of your own: "
    r"counterplan schema stays\.csv -o schema\.toml, then give --schema schema\.toml"
)
NOWHERE = ": cannot be written: the folder does not exist; create it first"


def asked(command: str, says: str, change: Change = lambda: None) -> Case:
    """A command, and what is said of it."""
    return Case(command, rf"^error: {says}", change)


def number(command: str, option: str, value: str, what: str) -> Case:
    """An option with a value that is not what it should be."""
    says = rf"^error: Invalid value for '?{option}'?: '{value}' is not {what}.*--help"
    return Case(f"{command} {option} {value}", says)


def whole(command: str, option: str, value: str, least: int = 0, most: int = 2_147_483_647) -> Case:
    """An option that takes a whole number."""
    return number(command, option, value, f"a whole number from {least} to {most}")


def under(command: str) -> Callable[..., Case]:
    """Options of one command, and what is said of them."""
    return lambda options, says, *change: asked(f"{command} {options}", says, *change)


explain, judge, fit = map(under, (EXPLAIN, JUDGE, FIT))
bunkering, cases, report = map(under, ("plan bunkering", "cases out", "report out"))
COMMANDS = {
    "command unknown": asked("explian ward.csv", "No such command 'explian'.*--help"),
    "option unknown": explain("--kk 3", "No such option: --kk .*--help"),
    "option without a value": explain("--k", "Option '--k' requires an argument.*--help"),
    "an argument too many": explain("b.csv", r"Got unexpected extra .*\(b.csv\).*--help"),
    "no table": asked("fit -o m.safetensors", "Missing argument 'EPISODES'.*--help"),
    "no model": asked("explain ward.csv", "Missing option '--model'.*--help"),
    "no name for a model": asked("fit ward.csv", "Missing option '--output'.*--help"),
    "no domain": asked("plan", "Missing argument 'DOMAIN'.*--help"),
    "no run": asked("cases", "Missing argument 'OUT'.*--help"),
    "no table to draft from": asked("schema", "Missing argument 'EPISODES'.*--help"),
    "NUL in a path": asked("explain a\0.csv -m model.json", ".*'EPISODES': embedded null.*--help"),
    "no path": asked("explain '' -m model.json", r"ward\.parquet, column .*; store them alike"),
    "line break in a path": asked(
        "explain 'a\nb.csv' -m model.json", r"a b\.csv: no such file; ch"
    ),
}
FITTING = {
    "fit to JSON": asked("fit ward.csv -o m.json", r"m\.json: has the extension '\.json', .*; ren"),
    "fit into no folder": asked("fit ward.csv -o no/m.safetensors", rf"no/m\.safetensors{NOWHERE}"),
    "fit into a file": asked(
        "fit ward.csv -o ward.csv/m.safetensors", r"ward\.csv/m\..*: its folder is a file; choose"
    ),
    "fit onto a folder": asked(FIT, r"m\.s.*: it is a folder; give a fil", folder("m.safetensors")),
    "fit onto a device": asked(
        FIT, r"m\.safetensors: .*not a regular file; give", link("m.safetensors", "/dev/null")
    ),
    "fit onto its own table": asked(
        FIT, r"m\.safetensors: is read by this command; choose", link("m.safetensors", "ward.csv")
    ),
    "fit onto its own schema": asked(
        MEASURED, r"m\.safetensors: is read by this .*; choose", link("m.safetensors", "stays.toml")
    ),
    "fit onto a circle of links": asked(
        FIT, r"m\.safetensors: .*circle of links; remove it", link("m.safetensors", "m.safetensors")
    ),
    "prior negative": number(FIT, "--prior", "-1", "a number from 0 up"),
    "prior infinite": number(FIT, "--prior", "inf", "a finite number"),
    "prior of 1e400": number(FIT, "--prior", "1e400", "a finite number"),
    "prior of nothing": fit("--prior 0", "no transition from state 1 under .*: use a pos"),
    "two priors": fit("--prior 1 --neighbour-prior", "--prior and --neigh.* exclude .*: give"),
    "labels too few": fit("--state-labels ill", r"ward\.csv, row 4, .*'1' is none of 'ill'; corre"),
    "labels with a gap": fit("--state-labels a,,b", "--state-labels 'a,,b': .*; separate"),
    "labels alike": fit("--action-labels a,a", "--action-labels 'a,a': .* twice; give each"),
    "labels and a schema": asked(
        f"{MEASURED} --state-labels a,b",
        r"--state-labels and --schema exclude .*: write .*stays\.toml",
    ),
    "units of a discrete table": fit(
        "--hidden 4",
        r"--hidden is for continuous states, but those of ward\.csv are discrete: leave .* --sch",
    ),
    "no schema for a table of one's own": asked("fit stays.csv -o m.safetensors", OWN),
    "units, but no schema": asked("fit stays.csv -o m.safetensors --hidden 4", OWN),
    "epochs of a discrete schema": asked(
        "fit ward.csv --schema grades.toml -o m.safetensors --epochs 4",
        r"--epochs is for continuous states, but those of grades\.toml are discrete",
    ),
    "prior of a cohort": asked(
        f"{LEARN} --prior 1", r"--prior is for .*cohort\.csv is a cohort table"
    ),
    "prior of measurements": asked(
        f"{MEASURED} --prior 1", r"--prior is for .*stays\.toml are contin"
    ),
    "no units": whole(LEARN, "--hidden", "0", 1, 10_000),
    "units of eleven digits": whole(LEARN, "--hidden", "99999999999", 1, 10_000),
    "two billion units": whole(LEARN, "--hidden", "2147483647", 1, 10_000),
    "epochs and a half": whole(LEARN, "--epochs", "1.5", 1),
    "one constant": number(LEARN, "--lipschitz", "1", "two positive numbers"),
    "constants and none": asked(
        f"{LEARN} --lipschitz 1,1 --unconstrained",
        "--lipschitz and --unconstrained exclude .*: give",
    ),
}
EXPLAINING = {
    "budget negative": whole(EXPLAIN, "--k", "-1"),
    "budget a word": whole(EXPLAIN, "--k", "few"),
    "budget of 30 digits": whole(EXPLAIN, "--k", "9" * 30),
    "seed of 400 digits": explain(f"--seed {'9' * 400}", "Invalid .*--seed: '9.*--help"),
    "budget squared": whole(EXPLAIN, "--k", "²"),
    "budgets with a gap": explain("--k 1,,2", "Invalid value for --k: '' is not .*--help"),
    "budgets of thousands": explain("--k 1,5000", "k, .* must be at most 1000, got 5000"),
    "all of two budgets": explain("--k 1,2 --all-k", "--all-k goes up to one number: give"),
    "all of 5,000 budgets": explain("--k 5000 --all-k", "--all-k goes up to --k 1,000 at"),
    "seed negative": whole(EXPLAIN, "--seed", "-5"),
    "no seconds": number(EXPLAIN, "--seconds", "0", "a positive number"),
    "seconds nan": number(EXPLAIN, "--seconds", "nan", "a positive number"),
    "seconds of 1e400": number(EXPLAIN, "--seconds", "1e400", "a finite number"),
    "no nodes": whole(EXPLAIN, "--nodes", "0", 1),
    "gap negative": number(EXPLAIN, "--gap", "-0.1", "a number from 0 up"),
    "solver unknown": number(EXPLAIN, "--solver", "oracle", "one of 'exact', 'greedy'"),
    "allowing what there is not": explain("--allow wlk", "allow 'wlk': 'wlk' is no action; there"),
    "forbidding what there is not": explain("--forbid 9", "forbid '9': '9' is no action; there ar"),
    "forbidding in no state": explain("--forbid il:rest", "forbid 'il': 'il' is no state; the"),
    "forbidding nothing": explain("--forbid ''", "forbid '': '' is no action; there are"),
    "keeping no step": explain("--keep first", "Invalid value for --keep: 'first' is not the num"),
    "keeping half a step": explain("--keep 0,1.5", "Invalid value for --keep: '1.5' is not the nu"),
    "a cost of nothing": explain("--cost walk", "cost 'walk': write an action and a whole"),
    "a cost below one": explain("--cost walk=0", "cost 'walk=0': write an action and a whol"),
    "a cost of what there is not": explain("--cost run=2", "cost 'run': 'run' is no action; ther"),
    "inside data that is not there": explain(
        "--supported", "--supported: .* has kept none of its data, .*; learn it anew with"
    ),
    "moves of no doses": explain("--max-move 1", "--max-move is about doses: .*; leave it"),
    "top-k of a policy": explain("--solver top-k", "--solver top-k changes .*: use --solver"),
    "seconds of no search": explain(
        "--solver greedy --seconds 3", "--seconds limits the exact search; --solver .*: leave"
    ),
    "nodes of no search": explain(
        "--solver greedy --nodes 10", "--nodes limits the exact search; .*ends by itself"
    ),
    "gap of no search": explain(
        "--solver random --gap 0.1", "--gap limits the exact search; .*ends by itself"
    ),
    "robust neural model": asked(
        "explain cohort.csv -m sepsis.safetensors --robust", "--robust is for discrete models"
    ),
    "episode unknown": explain("--episode zoe", r"ward\.csv: has no episode 'zoe'; the f"),
    "schema missing": explain("--schema no.toml", r"no\.toml: no such file; check the pa"),
    "results as a spreadsheet": explain("-o r.xlsx", r"r\.xlsx: has the ext.*; rename or"),
    "results onto the table": explain("-o ./ward.csv", r"ward\.csv: is read by .*; choos"),
    "results onto the model": explain("-o model.json", r"model\.json: is read by .*; cho"),
    "results onto a link": explain(
        "-o r.csv", r"r\.csv: is read by this .*; choose", link("r.csv", "ward.csv")
    ),
    "results into no folder": explain("-o no/r.json", rf"no/r\.json{NOWHERE}"),
    "folder onto the model": asked(
        "explain ward.csv -m ward.safetensors -o ward.safetensors", r"ward\.s.*: is read .*; choose"
    ),
    "workers without a folder": explain("--workers 2", "--workers is for runs into .*: give"),
    "cluster without a folder": explain("--cluster a", "--cluster is for runs into .*: give"),
    "workers and a cluster": explain(
        "-o new --workers 2 --cluster a", "--workers is for this .*, --cluster .*: give one"
    ),
    "no workers": whole(f"{EXPLAIN} -o new", "--workers", "0", 1, 1024),
    "a million workers": whole(f"{EXPLAIN} -o new", "--workers", "1000000", 1, 1024),
    "cluster without an address": explain(
        "-o new --cluster here", "cluster 'here': is no address .*; give one like tcp://"
    ),
}
LISTING = {
    "draft to JSON": asked("schema stays.csv -o s.json", r"s\.json: has the extension .*; rename"),
    "draft onto a schema": asked("schema stays.csv -o stays.toml", r"stays\.toml: exists .*; remo"),
    "draft into no folder": asked("schema stays.csv -o no/s.toml", rf"no/s\.toml{NOWHERE}"),
    "draft of nothing": asked("schema absent.csv", r"absent\.csv: no such file; check the path"),
    "cases of another budget": cases("--k 7", "out: was run for k = 1, not for 7; choose"),
    "cases by luck": number("cases out", "--by", "luck", "one of 'lower'"),
    "cases of no status": number("cases out", "--status", "fine", "one of 'optimal'"),
    "cases better by nan": number("cases out", "--min-improvement", "nan", "a number"),
    "cases of half a change": whole("cases out", "--max-changes", "0.5"),
    "cases up to none": whole("cases out", "--limit", "0", 1),
    "cases of no outcome": cases("--outcome died", "--outcome 'died': write it as NAME="),
    "cases of outcomes unknown": cases("--outcome died=1", "out: has no outcome 'died': .*l"),
    "cases of actions unknown": cases(
        "--changed-action foo", "out: has no action 'foo', .* part: there are '0', '1'; choose"
    ),
    "cases as a spreadsheet": cases("-o c.xlsx", r"c\.xlsx: has the extension .*; renam"),
    "cases into no folder": cases("-o no/c.csv", rf"no/c\.csv{NOWHERE}"),
    "cases onto a result": cases(
        "-o out/results/part-00000.parquet", r"out/results/.*: lies in the .*; choose another"
    ),
    "cases into the run": cases("-o out/../out/c.csv", r"out/.*c\.csv: lies in .*; choose"),
}
PLANNING = {
    "domain unknown": asked("plan fishing", "unknown domain 'fishing': choose from bunkering"),
    "row unknown": bunkering("--config Z", "--config 'Z' is not one of A, B"),
    "planner unknown": number("plan bunkering", "--planner", "alpha", "one of 'uct'"),
    "no simulations": whole("plan bunkering", "--simulations", "0", 1, 10**8),
    "two billion simulations": whole("plan bunkering", "--simulations", "2147483647", 1, 10**8),
    "step too late": bunkering("--step 9 --price 5", "--step 9: .*0 to 6; choose one"),
    "step without a price": bunkering("--step 2", "--step 2 needs --price: give what is"),
    "price negative": bunkering("--price -5", "--price -5 is not a price; give one above 0"),
    "price a word": number("plan bunkering", "--price", "cheap", "a number"),
    "price of 1e400": number("plan bunkering", "--price", "1e400", "a finite number"),
    "two prices for one": bunkering("--price 5,6", "--price: 2 numbers .*; expected one"),
    "level over the tank": bunkering(
        "--level 500", "--level 500 does not fit; give what is in the tank, 0 to 50"
    ),
    "capacity nan": bunkering("--capacity nan", "--capacity 'nan': give a number"),
    "capacity negative": bunkering("--capacity -4", "--capacity '-4': give a number above 0"),
    "modes of a ship": bunkering("--modes 7", "--modes is for hybrid, .*: leave it out"),
    "five modes": asked("plan hybrid --modes 5", "--modes 5: there are configurations with 3 and"),
    "mode unknown": asked(
        "plan hybrid --mode diesel", "--mode 'diesel' is not one of gas, electric"
    ),
    "correlation of seven": asked(
        "plan basket --correlation 7", "--correlation 7: .* the rest .*; give"
    ),
    "prices unknown": asked(
        "plan options --prices x", "--prices 'x': an option's are .*; choose one"
    ),
    "config and prices": bunkering(
        "--config B --prices-csv prices.csv", "--config names prices, .*: give one"
    ),
    "folder without scenarios": bunkering("-o new", "-o is for runs over a table: give --s"),
    "scenarios into a file": judge("-o found.csv", r"-o found\.csv: names a file; give"),
    "scenarios and a step": judge("--step 2", "--step is for a single decision: leave it"),
    "scenarios and workers": judge("--workers 2", "--workers is for runs in a folder: give"),
    "folder: two billion simulations": judge(
        "--simulations 2147483647 -o new --workers 1",
        "Invalid value for --simulations: '2147483647' is not a whole .* to 100000000 .*--help",
    ),
    "changes of no decisions": judge(
        "--k 2",
        r"--k is about decisions that were made, but voyages\.csv has no column 'action': add it",
        swap("voyages.csv", "action", "remark"),
    ),
    "scenarios and a template": judge(
        "--scenarios-template t.csv", "--scenarios does not go with .*: leave one out"
    ),
    "template onto a table": bunkering(
        "--scenarios-template voyages.csv", r"voyages\.csv: exists already; remove it"
    ),
    "template as Parquet": bunkering(
        "--scenarios-template t.parquet", r"t\.parquet: has the extension .*; rename"
    ),
}
DEMO = {
    "demo of no patients": whole("demo", "--patients", "0", 1, 100_000),
    "demo of two billion patients": whole("demo", "--patients", "2147483647", 1, 100_000),
    "demo into a file": asked("demo -o ward.csv", r"ward\.csv: is not a folder, .*; give a folder"),
}
SHOWING = {
    "one case and the top ones": report(
        "--case ann --cases 3", "--case is for one case, --cases for the .*: give one"
    ),
    "a page for 5,000 cases": whole("report out", "--cases", "5000", 0, 1000),
    "two keys of pseudonyms": report(
        "--pseudonyms --pseudonym-key key.txt",
        "--pseudonyms draws a key at random, --pseudonym-key reads one: give one of them",
        put("key.txt", "a key of some length"),
    ),
    "report as PDF": report(
        "-o r.pdf", r"r\.pdf: .*: write \.html and print it to PDF in the browser"
    ),
    "port of 70,000": whole("serve out", "--port", "70000", 0, 65_535),
    "a million workers to serve": whole("serve out", "--workers", "1000000", 1, 1024),
}
CASES = COMMANDS | FITTING | EXPLAINING | LISTING | PLANNING | DEMO | SHOWING
