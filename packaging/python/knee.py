"""Records and answers of knee as tables: pandas or polars where one of them is installed, else lists of dicts.

    import knee
    knee.runs("last")                      # a row for each run, with its point and all metrics
    knee.curves("last")                    # a row for each load, variant and CPU count
    knee.verdicts("base", "new")           # a row for each comparison
    knee.samples("last")                   # raw values inside runs; this needs pandas or polars
    knee.answer("scale", "last")           # what any verb prints with --json

A record is named as for `knee show`: `last`, a label, an id or its start, or a folder. Units are those of knee:
seconds, bytes, operations per second; the ends of names say which.
"""

import json
import os
import subprocess
from pathlib import Path

__version__ = "0.1.0"
__all__ = ["answer", "curves", "folder", "record", "runs", "samples", "table", "verdicts", "KneeError"]

#: The program; another one by $KNEE.
KNEE = os.environ.get("KNEE", "knee")


class KneeError(Exception):
    """What knee said when it could not do it."""


def answer(*words):
    """What `knee WORDS --json` prints, as Python values. Status 1 and 3 are answers, too: see `man knee`."""
    line = [KNEE, *map(str, words), "--json"]
    try:
        ended = subprocess.run(line, capture_output=True, text=True, check=False)
    except FileNotFoundError as why:
        raise KneeError(f"there is no {KNEE}: install knee, or name it by $KNEE") from why
    if ended.returncode not in (0, 1, 3):
        raise KneeError(f"{' '.join(line)}: {ended.stderr.strip()}")
    return json.loads(ended.stdout)


def folder(which="last"):
    """The folder of a record."""
    path = Path(which)
    if (path / "record.json").is_file():
        return path
    return Path(answer("show", which)["record"]["folder"])


def record(which="last"):
    """What record.json says (`knee help record` describes it)."""
    return json.loads((folder(which) / "record.json").read_text(encoding="utf-8"))


def runs(which="last", counters=False, form=None):
    """A row for each run: its number, block and state, its point, and each metric by name.

    Parameters are columns `parameter.NAME`, counters of the kernel `counter.NAME` if they are asked for. Runs with
    `placebo` are the second of an A/A pair and belong to no comparison.
    """
    path = folder(which)
    points = json.loads((path / "record.json").read_text(encoding="utf-8"))["points"]
    rows = []
    with open(path / "runs.ndjson", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            row = {"run": run["run"], "block": run["block"], "state": run["state"]}
            row |= {"placebo": run.get("placebo", False), "started": run["started"]}
            row |= _point(points[run["point"]])
            row |= run.get("metrics", {})
            if counters:
                row |= {f"counter.{name}": value for name, value in run.get("counters", {}).items()}
            rows.append(row)
    return table(rows, form)


def curves(which="last", metric="operations_per_s", form=None):
    """A row for each load, variant and CPU count, with mean, standard deviation and number of runs of a metric."""
    rows = []
    for curve in answer("show", which)["curves"]:
        for cell in curve["cells"]:
            if metric in cell["metrics"]:
                row = _point(curve) | {"at": cell["at"], "cpus": cell["cpus"], "tasks": cell["tasks"]}
                rows.append(row | {"metric": metric} | cell["metrics"][metric])
    return table(rows, form)


def verdicts(*which, metric=None, form=None):
    """A row for each comparison with the baseline: place, change, interval and verdict, by the metric that decides or another.

    Changes are shares of the baseline where `scale` is `relative`.
    """
    compared = answer("compare", *which, *(["--metric", metric] if metric else []))
    names = [variant["name"] for variant in compared["variants"]]
    rows = []
    for cell in compared["cells"]:
        for judged in cell["metrics"]:
            if judged["metric"] != (metric or compared["primary"]):
                continue
            for name, side, contrast in zip(names[1:], judged["sides"][1:], judged["contrasts"]):
                low, high = contrast["interval"] or (None, None)
                row = _point(cell["place"]) | {"baseline": names[0], "variant": name}
                row |= {"metric": judged["metric"], "n": contrast["n"]}
                row |= {"baseline_mean": judged["sides"][0]["mean"], "mean": side["mean"]}
                row |= {"change": contrast["change"], "low": low, "high": high, "scale": contrast["scale"]}
                rows.append(row | {"verdict": contrast["verdict"]["is"]})
    return table(rows, form)


def samples(which="last", form=None):
    """Raw values inside runs: run, metric, task, at_ns, value."""
    library = _library(form)
    if library is None:
        raise KneeError("samples are in a Parquet file, which takes pandas or polars")
    return library.read_parquet(folder(which) / "samples.parquet")


def table(rows, form=None):
    """Rows as a data frame of `form`: "pandas", "polars", "rows" for dicts, or by default the first that is installed."""
    library = _library(form)
    if library is None:
        return rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    return library.DataFrame({name: [row.get(name) for row in rows] for name in names})


def _point(point):
    """The columns of a point."""
    names = ("variant", "workload", "as", "cpus", "tasks", "placement", "pass", "dir")
    row = {name: point[name] for name in names if name in point}
    return row | {f"parameter.{name}": value for name, value in point.get("parameters", {}).items()}


def _library(form):
    if form not in (None, "pandas", "polars", "rows"):
        raise KneeError(f"{form} is no form of a table: pandas, polars or rows")
    for name in ("pandas", "polars") if form is None else (form,):
        try:
            return __import__(name) if name != "rows" else None
        except ImportError:
            if form is not None:
                raise
    return None
