"""`disco allocate VALUES --caps CAPS -o OUT`: the solver alone, from files to files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import EngineFlag, JsonFlag, QuietFlag, show
from disco.entrypoints.files import read_yaml
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import FileFormatError, InputError, LimitError, Problem, TableError, UsageError
from disco.records.files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.allocation import Allocation

_KEYS = {"caps", "floors", "budget", "segments"}


def register(app: typer.Typer) -> None:
    app.command("allocate")(allocate)


def allocate(
    values: Annotated[Path, typer.Argument(help="Parquet: customer_id and one column per depth (null: not eligible).")],
    caps: Annotated[Path, typer.Option("--caps", help="YAML or JSON: caps, and optionally floors, budget, segments.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet to write: customer_id, depth, value.")],
    costs: Annotated[Path | None, typer.Option(help="Parquet of the shape of VALUES: what the budget pays.")] = None,
    summary: Annotated[Path | None, typer.Option(help="JSON to write: status, value, bound, gap, prices, …")] = None,
    solver: Annotated[str, typer.Option(help="exact, or highs (slow, independent).")] = "exact",
    engine: EngineFlag = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Give each customer one depth or none, so that the total value is as high as the limits allow.

    Example: disco allocate values.parquet --caps caps.yaml -o codes.parquet --summary summary.json
    """
    if solver not in ("exact", "highs"):
        raise UsageError("--solver", found=solver, expected="exact or highs")
    import numpy as np

    from disco.allocation.allocate import solve_problem
    from disco.allocation.problem import read_problem
    from disco.allocation.reference import solve_with_highs
    from disco.allocation.result import Status
    from disco.entrypoints.shop import Shop
    from disco.records.depths import depth_label

    check_outputs(out, summary, inputs=(values, caps, costs))
    here = Shop.open(Path(), engine=engine)  # for its threads
    limits = _read_limits(caps)
    table, depths, matrix, eligible = _read_matrix(values)
    cost_matrix = None
    if costs is not None:
        cost_matrix = _read_costs(costs, table, depths, eligible)
    segments = _segments(limits.get("segments"), table, values)
    problem = read_problem(
        matrix, limits.get("caps"), depths=depths, floors=limits.get("floors"), segments=segments,
        costs=cost_matrix, budget=limits.get("budget"), eligible=eligible, ids=table.column("customer_id"),
    )  # fmt: skip
    found = solve_with_highs(problem) if solver == "highs" else solve_problem(problem, engine=here.engine)
    report = _report(found, depths)
    if found.status is Status.INFEASIBLE:
        if summary is not None:
            _write_summary(summary, report)
        show(report, "", as_json=as_json, quiet=True)
        typer.echo("error: no allocation meets all limits", err=True)
        for conflict in found.conflicts:
            typer.echo(f"  {conflict}", err=True)
        raise typer.Exit(1)

    import pyarrow as pa
    import pyarrow.parquet as pq

    none = found.choice < 0
    column = np.maximum(found.choice, 0)
    picked = np.where(none, 0.0, matrix[np.arange(column.size), column])
    result = pa.table(
        {
            "customer_id": table.column("customer_id"),
            "depth": pa.array(np.asarray(depths)[column], mask=none),
            "value": pa.array(picked),
        }
    )
    with written_whole(out) as partial:
        pq.write_table(result, partial)
        if summary is not None:
            _write_summary(summary, report)
    lines = [f"{found.status.name.lower().replace('_', ' ')}: value {found.value:,.2f}, gap {found.gap:.1e}"]
    lines += [
        f"  {depth_label(depth):>6}  {int(count):>12,} customers   price {price:,.4f}"
        for depth, count, price in zip(depths, found.counts, found.prices, strict=True)
    ]
    show(report, "\n".join(lines), as_json=as_json, quiet=quiet)


def _write_summary(path: Path, report: dict[str, Any]) -> None:
    with written_whole(path) as partial:
        partial.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _report(found: "Allocation", depths: tuple[float, ...]) -> dict[str, Any]:
    import math

    from disco.records.depths import depth_label

    labels = [depth_label(depth) for depth in depths]

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    prices: dict[str, float] = dict(zip(labels, found.prices.tolist(), strict=True))
    if found.budget_price is not None:
        prices["budget"] = found.budget_price
    report: dict[str, Any] = {
        "status": found.status.name,
        "value": number(found.value),
        "bound": number(found.bound),
        "gap": number(found.gap),
        "counts": dict(zip(labels, found.counts.tolist(), strict=True)),
        "prices": prices,
        "conflicts": [
            {"limits": list(conflict.limits), "found": conflict.found, "change": conflict.change}
            for conflict in found.conflicts
        ],
        "seconds": found.seconds + found.check_seconds,
    }
    if found.segment_prices is not None:
        report["segment_prices"] = {
            str(label): dict(zip(labels, row, strict=True))
            for label, row in zip(found.segment_labels, found.segment_prices.tolist(), strict=True)
        }
    if found.cost is not None:
        report["cost"] = found.cost
    return report


def _read_limits(path: Path) -> dict[str, Any]:
    limits = read_yaml(path, expected="a YAML or JSON file with caps")
    if not isinstance(limits, dict) or not set(limits) <= _KEYS:
        known = ", ".join(sorted(_KEYS))
        found = sorted(str(key) for key in set(limits) - _KEYS) if isinstance(limits, dict) else type(limits).__name__
        raise LimitError(str(path), found=found, expected=f"a mapping with {known}")
    for key in ("caps", "floors", "segments"):
        if limits.get(key) is not None and not isinstance(limits[key], dict):
            raise LimitError(f"{path}, {key}", found=repr(limits[key]), expected="a mapping")
    return {**limits, "caps": limits.get("caps") or {}}


def _open(path: Path) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet file")
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise FileFormatError(str(path), found=" ".join(str(error).split()), expected="a Parquet file") from None
    if "customer_id" not in table.column_names:
        raise InputError(str(path), found=", ".join(table.column_names), expected="a column customer_id")
    return table


def _depth_columns(table: "pa.Table", path: Path) -> dict[float, str]:
    import pyarrow.types as kinds

    from disco.records.depths import read_depth

    columns: dict[float, str] = {}
    for name in table.column_names:
        try:
            float(name)
        except ValueError:
            continue
        depth = read_depth(name, where=f"{path}, column {name}")
        if depth in columns:
            raise InputError(f"{path}, column {name}", found=f"the depth of {columns[depth]} again", expected="it once")
        kind = table.schema.field(name).type
        if not (kinds.is_floating(kind) or kinds.is_integer(kind)):
            raise InputError(f"{path}, column {name}", found=str(kind), expected="float")
        columns[depth] = name
    if not columns:
        raise InputError(str(path), found=", ".join(table.column_names), expected="columns named by depth, as 0.1")
    return columns


def _read_matrix(path: Path) -> tuple["pa.Table", tuple[float, ...], Any, Any]:
    """The table, its depths, values (customers, depths) depth-major with 0 for nulls, and eligibility (None: all)."""
    import numpy as np
    import pyarrow.compute as pc

    table = _open(path)
    columns = _depth_columns(table, path)
    if table.num_rows == 0:
        raise InputError(str(path), found="an empty table", expected="at least one customer")
    depths = tuple(columns)
    narrow = all(str(table.schema.field(name).type) == "float" for name in columns.values())
    matrix = np.empty((len(depths), table.num_rows), np.float32 if narrow else np.float64)
    eligible = None
    problems: list[Problem] = []
    for row, name in enumerate(columns.values()):
        column = table.column(name)
        if column.null_count:
            if eligible is None:
                eligible = np.ones(matrix.shape, np.bool_)
            eligible[row] = pc.is_valid(column).to_numpy()
            column = pc.fill_null(column, 0)
        matrix[row] = column.to_numpy()
        bad = np.flatnonzero(~np.isfinite(matrix[row]))
        if bad.size:
            fix = "Leave the cell null where a customer may not get this depth."
            text = str(float(matrix[row, bad[0]]))
            problems.append(
                Problem("not finite", str(path), name, text, "a finite number", fix, int(bad[0]) + 1, bad.size)
            )
    if problems:
        raise TableError(f"{path} cannot be used:", problems)
    return table, depths, matrix.T, None if eligible is None else eligible.T


def _read_costs(path: Path, table: "pa.Table", depths: tuple[float, ...], eligible: Any) -> Any:
    """Costs in the order of the depths of VALUES; a null is refused unless the customer may not get that depth."""
    import numpy as np

    other, columns, matrix, known = _read_matrix(path)
    if set(columns) != set(depths) or other.num_rows != table.num_rows:
        raise InputError(
            str(path),
            found=f"{other.num_rows} rows, depths {', '.join(map(str, columns))}",
            expected=f"{table.num_rows} rows, depths {', '.join(map(str, depths))}, as in VALUES",
        )
    if not other.column("customer_id").equals(table.column("customer_id")):
        raise InputError(
            str(path), found="other customers, or another order", expected="the customers of VALUES, in order"
        )
    order = [columns.index(depth) for depth in depths]
    if known is not None:
        missing = ~known[:, order] if eligible is None else ~known[:, order] & eligible
        if missing.any():
            row, column = (int(place) for place in np.argwhere(missing)[0])
            raise InputError(
                f"{path}, column {depths[column]}, row {row + 1}",
                found="a null",
                expected="a cost, because VALUES lets this customer have this depth",
            )
    return np.asfortranarray(matrix[:, order])


def _segments(given: Any, table: "pa.Table", path: Path) -> Any:
    if not given:
        return None
    if len(given) > 1:
        raise LimitError(
            "segments",
            found=f"{len(given)} columns ({', '.join(map(str, given))})",
            expected="one column",
            fix="Two partitions at once are no network any more; combine them into one column.",
        )
    from disco.allocation import Segments

    (column, limits), *_ = given.items()
    if column not in table.column_names:
        raise LimitError("segments", found=f"column {column!r}", expected=f"a column of {path}")
    if not isinstance(limits, dict):
        raise LimitError(f"segments, {column}", found=repr(limits), expected="{value: {caps: …, floors: …}}")
    return Segments(table.column(column).to_pylist(), limits)
