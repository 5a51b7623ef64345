"""Whole tables of episodes: run in parts, stopped and resumed at will, here or on a cluster.

Its modules:

    question   what is asked about every episode, and the models that answer (`Explainer`)
    answer     the answer about one episode, whose fields are the columns of every table of results
    explain    a table explained at once or as a run (`explain_table`, `Cohort`)
    regret     the same for executed plans: what each lost, and all of them together
    cohort     the one loop of a run: parts out, results in
    task       tasks and the worker processes that do them; `cluster`: on a Dask cluster
    store      the folder of a run as it is written; `run`: the same opened for reading (`Run`)
"""
