"""Decided plans as files: PLANS/<plan_id>/ with plan.json, decisions.parquet (contexts included) and features.parquet.

The folder's name is the hash of everything the decisions rest on, so the same plan again is the same folder. Files are
written whole; plan.json comes last and seals the others by their hashes.
"""

import json
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from disco.operations.planned import Planned, Solution, arm_from_summary, money_from_summary, plan_id
from disco.records.decisions import Arm
from disco.records.errors import FileFormatError, StateError
from disco.records.files import written_whole
from disco.records.ports import Store

_PLAN, _DECISIONS, _FEATURES = "plan.json", "decisions.parquet", "features.parquet"


def keep(store: Store, planned: Planned, folder: Path) -> Path:
    """Write a plan's files and note it in the store; the same plan again changes nothing. Returns its folder."""
    place = folder / planned.plan_id
    place.mkdir(parents=True, exist_ok=True)
    if not (place / _PLAN).exists():
        context = pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(planned.contexts).ravel()), planned.contexts.shape[1]
        )
        _write(place / _DECISIONS, planned.decisions.append_column("context", context))
        if planned.features is not None:
            _write(place / _FEATURES, planned.features)
        record = planned.record()
        content = {
            "plan": json.loads(planned.plan.model_dump_json(by_alias=True)),
            "inputs": dict(planned.inputs),
            **json.loads(record.summary),
            "files": {path.name: _digest(path) for path in sorted(place.glob("*.parquet"))},
        }
        with written_whole(place / _PLAN) as unfinished:
            unfinished.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    with store.writing(planned.plan.campaign) as shelves:
        shelves.add_plan(planned.record())
    return place


def load(store: Store, name: str, folder: Path) -> Planned:
    """The plan with this id, or the only one whose id begins so, as it was kept."""
    with store.reading() as shelves:
        record = shelves.plan(name)
    place = folder / record.plan_id
    files = _sealed(place)
    kept = json.loads(record.summary)
    summary: dict[str, Any] = kept["summary"]
    table = pq.read_table(place / _DECISIONS)
    context = table["context"].combine_chunks()
    contexts = context.flatten().to_numpy(zero_copy_only=False).reshape(table.num_rows, -1)
    if plan_id(record.plan, record.inputs) != record.plan_id:
        raise StateError(
            f"plan {record.plan_id}",
            found="another content than its name says",
            expected="a plan as it was kept",
            fix="Run `disco plan` again.",
        )
    return Planned(
        plan=record.plan,
        inputs=record.inputs,
        decisions=table.drop_columns(["context"]),
        contexts=contexts,
        network=summary["network"],
        version=summary["version"],
        solution=Solution.from_json(kept["solution"]),
        arms={Arm(arm): arm_from_summary(read) for arm, read in summary["arms"].items()},
        total=money_from_summary(summary["total"]),
        binding=tuple(summary["binding"]),
        warnings=tuple(summary["warnings"]),
        features=pq.read_table(place / _FEATURES) if _FEATURES in files else None,
        planned_at=record.planned_at,
    )


def keep_late_features(folder: Path, plan: str, features: pa.Table) -> None:
    """Retain the features of customers who arrived after the launch, one file per arrival."""
    place = folder / plan
    place.mkdir(parents=True, exist_ok=True)
    number = len(list(place.glob("late-*.parquet")))
    while (path := place / f"late-{number:06d}.parquet").exists():
        number += 1
    _write(path, features)


def retained_features(folder: Path, plan: str, customers: pa.Array) -> pa.Table:
    """Features of these customers of a plan, in their order, so that another network can embed them."""
    place = folder / plan
    paths = [path for path in (place / _FEATURES, *sorted(place.glob("late-*.parquet"))) if path.exists()]
    if not paths:
        raise StateError(
            f"plan {plan}",
            found=f"no features in {place}",
            expected="the features that were kept with the plan",
            fix="Restore the folder of the plan from a copy.",
        )
    kept = pa.concat_tables([pq.read_table(path) for path in paths], promote_options="default")
    ids = kept["customer_id"].cast(pa.string()).combine_chunks()
    rows = pc.index_in(customers.cast(pa.string()), value_set=ids)
    if rows.null_count:
        missing = customers.filter(rows.is_null())
        raise StateError(
            f"plan {plan}",
            found=f"no features of {len(missing):,} customers, the first {missing[0]}",
            expected="features of everybody decided",
        )
    return kept.take(rows)


def _write(path: Path, table: pa.Table) -> None:
    with written_whole(path) as unfinished:
        pq.write_table(table, unfinished)


def _sealed(place: Path) -> dict[str, str]:
    """The files of a plan and their hashes; FileFormatError where one is missing or no longer what was written."""
    fix = "Restore the folder from a copy, or run `disco plan` again."
    try:
        files: dict[str, str] = json.loads((place / _PLAN).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError) as error:
        raise FileFormatError(str(place / _PLAN), found=str(error), expected="a kept plan", fix=fix) from error
    for name, digest in files.items():
        path = place / name
        if not path.is_file() or _digest(path) != digest:
            found = "another content than when it was kept" if path.is_file() else "no such file"
            raise FileFormatError(str(path), found=found, expected="the file as it was written", fix=fix)
    return files


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
