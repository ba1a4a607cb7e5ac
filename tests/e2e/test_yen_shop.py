"""A shop in Tokyo, from `disco init` to `disco results`: whole yen, and days that begin at midnight in Tokyo."""

import contextlib
import csv
import io
import json
import re
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from disco.entrypoints import cli

CUSTOMERS = 400
DAY = timedelta(days=1)


def disco(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["disco", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    finally:
        sys.argv = before
    raise AssertionError("the command did not end")


def done(*arguments: object) -> str:
    code, out, err = disco(*arguments)
    assert code == 0, err
    assert "£" not in out + err
    return out


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def tables(folder: Path) -> None:
    """Customers and a year of orders before September 2026, in yen and by the clock of Tokyo."""
    rng = np.random.default_rng(5)
    for file in folder.iterdir():
        file.unlink()
    write(
        folder / "customers.csv",
        [{"customer_id": f"c{n}", "joined_on": "2024-04-01", "prefecture": n % 3} for n in range(CUSTOMERS)],
    )
    orders = []
    for n in range(CUSTOMERS):
        for _ in range(int(rng.integers(2, 9))):
            moment = datetime(2025, 9, 1) + timedelta(minutes=int(rng.integers(0, 364 * 24 * 60)))
            price = int(np.exp(rng.normal(8.6 + 0.3 * (n % 3), 0.4)))
            orders.append((moment, n, price))
    write(
        folder / "orders.csv",
        [
            {
                "order_id": f"o{place}",
                "customer_id": f"c{n}",
                "ordered_at": moment,
                "full_price": price,
                "paid": price,
                "items": 1 + price % 3,
                "code": "",
            }
            for place, (moment, n, price) in enumerate(sorted(orders))
        ],
    )


def plan(campaign: str, start: date, **more: object) -> dict[str, object]:
    return {
        "campaign": campaign,
        "customers": {"table": "customers", "as_of": start},
        "depths": {0.1: {"at_most": "30%"}, 0.3: {"at_most": "30%"}},
        "objective": {"revenue_weight": 3},
        "valid": {"from": f"{start}T10:00", "days": 14},
        "seed": 3,
        **more,
    }


def answers(codes: list[dict[str, object]], file: Path, start: date, *, seed: int) -> dict[str, tuple[int, float]]:
    """Outcomes of a half of the codes; what counts of them: code → yen, depth."""
    rng = np.random.default_rng(seed)
    opens, rows, counted = datetime(start.year, start.month, start.day, 10), [], {}
    for place, code in enumerate(codes):
        if rng.random() < 0.5:
            continue
        price = int(np.exp(rng.normal(9.1, 0.5)))  # somewhat more than without a code
        moment = opens + timedelta(minutes=int(rng.integers(0, 14 * 24 * 60)))
        if place % 40 == 0:
            moment = opens - timedelta(seconds=1)  # not valid yet
        elif place % 40 == 1:
            moment = opens + 14 * DAY  # not valid any more
        else:
            counted[str(code["code_id"])] = (price, float(code["depth"]))
        rows.append(
            {
                "event_id": f"{code['code_id']}-1",
                "campaign_id": code["campaign_id"],
                "customer_id": code["customer_id"],
                "code": code["code_id"],
                "ordered_at": moment,
                "full_price": price,
                "kind": "purchase",
            }
        )
    write(file, rows)
    return counted


@pytest.mark.filterwarnings("ignore")
def test_a_shop_in_tokyo_from_init_to_results(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    done("init", shop)
    settings = (shop / "disco.yaml").read_text()
    (shop / "disco.yaml").write_text(
        settings.replace("currency: GBP", "currency: JPY").replace("time_zone: UTC", "time_zone: Asia/Tokyo")
    )
    tables(shop / "data")
    done("validate", "--shop", shop, "--as-of", "2026-09-01")
    network = shop / "context.safetensors"
    window = ("--window-start", "2026-06-01", "--max-epochs", 2)
    done("train", "context", "--tables", shop / "data", "--shop", shop, *window, "-o", network)

    totals = {}
    for number, (campaign, start) in enumerate((("first", date(2026, 9, 1)), ("second", date(2026, 9, 28)))):
        more: dict[str, object] = {"policy": {"name": "random"}}
        if number:
            more = {"control": {"share": "30%"}, "budget": 250_000}
        file = shop / f"{campaign}.yaml"
        file.write_text(yaml.safe_dump(plan(campaign, start, **more)))
        said = done("plan", file, "--shop", shop)
        assert f"{start.day} Sep 2026 10:00 – " in said
        if number:
            assert re.search(r"¥[0-9,]+(\.[0-9]+)?[km]?\b", said)
            assert not re.search(r"¥[0-9]+\.[0-9]{2}\b(?!k|m)", said), "yen have no decimals"
        done("launch", campaign, "--shop", shop)
        done("export", campaign, "-o", shop / "codes.parquet", "--shop", shop)
        codes = pq.read_table(shop / "codes.parquet").to_pylist()
        assert {code["sent_at"].isoformat() for code in codes} == {f"{start}T10:00:00+09:00"}
        counted = answers(codes, shop / f"{campaign}.csv", start, seed=number)
        taken = json.loads(done("ingest", campaign, shop / f"{campaign}.csv", "--shop", shop, "--json"))
        assert (taken["applied"], taken["received"] > taken["applied"]) == (len(counted), True)
        assert not any("full_price" in words for words in taken["warnings"]), "yen are not compared with hundredths"
        done("learn", campaign, "--as-of", start + 20 * DAY, "--shop", shop)
        totals[campaign] = sum(yen * (1 - depth) for yen, depth in counted.values())

    found = json.loads(done("results", "--as-of", "2026-11-01", "--shop", shop, "--json"))
    assert found["currency"] == "JPY"
    for one in found["campaigns"]:
        revenue = sum(arm["summary"]["revenue"] for arm in one["arms"].values())
        assert revenue == pytest.approx(totals[one["campaign"]])
    page = shop / "results.html"
    assert "¥" in done("results", "second", "--as-of", "2026-11-01", "--html", page, "--shop", shop)
    shown = re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL)
    assert "¥" in shown
    assert "£" not in shown
    assert "¥" in done("belief", "--shop", shop)
    assert "¥" in done("frontier", shop / "second.yaml", "--html", shop / "frontier.html", "--shop", shop)
    assert "What more markdown would bring" in (shop / "frontier.html").read_text()
    decided = json.loads(done("plan", "show", "second", "--shop", shop, "--json"))
    assert decided["currency"] == "JPY"
    codes = pq.read_table(shop / "codes.parquet").to_pylist()
    told = [json.loads(done("explain", "second", code["customer_id"], "--shop", shop, "--json")) for code in codes[:8]]
    assert any("¥" in " ".join(one["words"]) for one in told)

    (shop / "third.yaml").write_text(yaml.safe_dump(plan("third", date(2026, 11, 1), budget=1000.5)))
    code, _, said = disco("plan", shop / "third.yaml", "--shop", shop)
    assert (code, "in JPY, whose smallest is 1" in said) == (1, True)
    (shop / "disco.yaml").write_text(settings.replace("currency: GBP", "currency: EUR"))
    code, _, said = disco("campaigns", "--shop", shop)
    assert (code, "currency: JPY" in said, "Set `currency: JPY`" in said) == (1, True, True)
    (shop / "disco.yaml").write_text("currency: euro\ntime_zone: Tokyo\n")
    code, _, said = disco("campaigns", "--shop", shop)
    assert (code, "Did you mean EUR?" in said, "Did you mean Asia/Tokyo?" in said) == (1, True, True)
