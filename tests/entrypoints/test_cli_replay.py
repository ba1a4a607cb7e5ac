"""`disco replay` from outside: the promised output, and every bad input ends in one clear message."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DEPTHS = (0.1, 0.2, 0.3)


def columns(rows=900, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).clip(-4, 4)
    depth = rng.choice(DEPTHS, rows)
    price = np.exp(3.5 + 0.3 * x[:, 0] + depth * (1 + x[:, 1]) + 0.5 * rng.normal(size=rows))
    bought = rng.random(rows) < 0.5
    return {
        "customer_id": [f"c{row}" for row in range(rows)],
        "x1": x[:, 0],
        "x2": x[:, 1],
        "depth": depth,
        "full_price": pa.array(np.where(bought, price, np.nan), from_pandas=True),
        "region": np.where(x[:, 0] > 0, "north", "south"),
    }


@pytest.fixture
def write(tmp_path):
    def written(name="log.parquet", **changes):
        path = tmp_path / name
        pq.write_table(pa.table({**columns(), **changes}), path)
        return path

    return written


def test_the_promised_json(disco, write):
    code, out, err = disco(
        *("replay", write(), "--context", "x1,x2", "--policy", "thompson", "--policy", "ulcc"),
        *("--caps", "0.1=25%,0.2=60", "--batch", 300, "--repeats", 3, "--seed", 4, "--json"),
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert list(result["policies"]) == ["thompson", "ulcc"]
    for found in result["policies"].values():
        assert found["presented"] == 900
        assert 0 < found["accepted"] < 900
        assert found["average_basket_value"] > 0
        assert found["standard_error"] > 0
        assert found["relative_to_random"] == pytest.approx(
            found["average_basket_value"] / result["random"]["average_basket_value"]
        )
        assert [batch["presented"] for batch in found["series"]] == [300, 300, 300]
        assert sum(batch["accepted"] for batch in found["series"]) == found["accepted"]
        assert found["codes"]["0.1"] <= 3 * 75
        assert found["codes"]["0.2"] <= 3 * 60
        assert set(found["revenue_per_customer"]) == {"ips", "snips", "dr", "effective_rows"}


def test_every_policy_and_the_table(disco, write):
    names = ("thompson", "ucb", "epsilon_greedy", "greedy", "random", "ulcc")
    asked = [word for name in names for word in ("--policy", name)]
    code, out, _ = disco("replay", write(), "--context", "x1,x2", *asked, "--batch", 450, "--repeats", 0)
    assert code == 0
    for name in ("thompson", "ucb", "greedy", "random", "ulcc"):
        assert name in out
    assert disco("replay", write(), "--context", "x1,x2", *asked, "--batch", 450, "--repeats", 0, "--quiet")[1] == ""


def test_forgetting_reaches_the_model(disco, write):
    log, fixed = write(), (*CONTEXT, "--policy", "greedy", "--batch", 100, "--passes", 1, "--repeats", 0, "--json")
    codes = [
        json.loads(disco("replay", log, *fixed, *given)[1])["policies"]["greedy"]["codes"]
        for given in ((), ("--forgetting", 1), ("--forgetting", 0.2))
    ]
    assert codes[0] == codes[1] != codes[2]


def test_a_policy_without_accepted_purchases_says_why_it_has_no_interval(disco, write):
    made = columns()
    never = np.where(made["depth"] == 0.3, np.nan, made["full_price"].to_numpy(zero_copy_only=False))
    log = write(full_price=pa.array(never, from_pandas=True))
    options = ("--context", "x1,x2", "--batch", 300, "--passes", 2, "--repeats", 2)
    code, out, err = disco("replay", log, *options, "--policy", "greedy", "--caps", "0.1=0,0.2=0")
    assert (code, err) == (0, "")
    assert "Fewer than two accepted purchases, so no interval: random, greedy." in out
    assert "luck" not in out
    code, out, _ = disco("replay", log, *options, "--policy", "greedy")
    assert code == 0
    assert "Fewer" not in out


def test_a_warm_start_strata_weights_and_an_objective(disco, write):
    rng = np.random.default_rng(2)
    north = np.asarray(columns()["region"]) == "north"
    depth = np.where(rng.random(900) < np.where(north, 0.7, 0.4), 0.1, 0.3)
    log = write(depth=depth)
    code, out, err = disco(
        *("replay", log, "--context", "x1,x2", "--policy", "greedy", "--warm", write("warm.parquet")),
        *("--strata", "region", "--skew", "weight", "--revenue-weight", 3, "--batch", 300, "--repeats", 2, "--json"),
    )
    assert (code, err) == (0, "")
    found = json.loads(out)["policies"]["greedy"]
    assert found["objective_per_customer"]["dr"]["value"] > 0
    assert found["presented"] == 900


def test_a_log_of_which_resampling_leaves_little_says_how_to_use_all_of_it(disco, write):
    rng = np.random.default_rng(3)
    rare = rng.random(900) < 0.05
    depth = np.where(rare, 0.3, rng.choice([0.1, 0.2], 900))
    log = write(depth=depth, propensity=np.where(rare, 0.05, 0.475))
    options = ("replay", log, "--context", "x1,x2", "--policy", "greedy", "--repeats", 0)
    code, _, err = disco(*options, "--batch", 500)
    assert code == 1
    assert "skew 'weight'" in err
    code, out, _ = disco(*options, "--batch", 50)
    assert code == 0
    assert "With --skew weight all rows count." in out
    assert "errors by the delta method" in out
    assert "--skew weight" not in disco(*options, "--batch", 500, "--skew", "weight")[1]


def test_a_log_that_is_not_random_is_warned_about_on_stderr(disco, write):
    sorted_depth = np.sort(columns()["depth"])[np.argsort(np.argsort(columns()["x2"]))]
    code, out, err = disco(
        "replay", write(depth=sorted_depth), "--context", "x1,x2", "--policy", "greedy", "--batch", 300, "--json"
    )
    assert code == 0
    assert "warning: The depths do not look random" in err
    assert "in context feature x2" in err
    assert json.loads(out)["warnings"]


def test_it_says_where_engagement_is_taken_as_1(disco, write):
    options = ("replay", write(), "--context", "x1,x2", "--policy", "greedy", "--repeats", 0, "--batch", 300)
    assert "Engagement was taken as 1" in disco(*options)[1]
    (sentence,) = json.loads(disco(*options, "--json")[1])["assumptions"]
    assert "of those with 10% off" in sentence
    assert json.loads(disco(*options, "--learn-engagement", "--json")[1])["assumptions"] == []


def test_engagement_scores_make_rates_per_customer(disco, write):
    """Who bought is known only to the score: with it, few codes go to other customers, and more come back used."""
    eager = ~np.isnan(np.asarray(columns()["full_price"].to_numpy(zero_copy_only=False)))
    told = np.where(eager, 2.0, -2.0) + np.where(np.random.default_rng(3).random(900) < 0.1, np.nan, 0.0)
    log = write(h=pa.array(told, from_pandas=True))
    asked = ("replay", log, "--context", "x1,x2", "--policy", "greedy", "--batch", 300, "--repeats", 0, "--json")
    limits = ("--caps", "0.1=10%,0.2=10%,0.3=10%", "--revenue-weight", 3)
    found = {}
    for name, more in (("score", ("--engagement-score", "h")), ("rate", ("--learn-engagement",))):
        code, out, err = disco(*asked, *limits, *more)
        assert (code, err) == (0, "")
        found[name] = json.loads(out)["policies"]["greedy"]
    used = {name: one["purchasers"] / one["accepted"] for name, one in found.items()}
    assert used["score"] > 0.85
    assert used["rate"] < 0.7


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.full(900, np.nan), "a finite number, or null for none"),
        (np.r_[np.zeros(899), np.inf], "row 900"),
        (np.full(900, 45.0), "log odds, within ±32"),
        (pa.nulls(900, pa.float64()), "no score in any row"),
    ],
)
def test_scores_that_are_none_are_refused_with_their_row(disco, write, scores, message):
    code, _, err = disco("replay", write(h=scores), *CONTEXT, *GREEDY, "--engagement-score", "h")
    assert code == 1
    assert message in err


def test_a_short_log_is_one_batch_and_says_that_nothing_was_learned(disco, write):
    asked = ("--policy", "greedy", "--passes", "1", "--repeats", "0")
    code, out, err = disco("replay", write(), *CONTEXT, *asked)
    assert code == 0, err
    assert "batches of 900" in out
    assert "before they had learned anything" in out
    assert "before they had learned" not in disco("replay", write(), *CONTEXT, *asked, "--batch", "300")[1]


CONTEXT = ("--context", "x1,x2")
GREEDY = ("--policy", "greedy", "--batch", "300")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ((*CONTEXT, "--policy", "best"), 2, "one of thompson"),
        ((*CONTEXT, *GREEDY, "--caps", "0.1:25%"), 2, "DEPTH=COUNT"),
        ((*CONTEXT, *GREEDY, "--caps", "0.1=many"), 2, "a count, or a share as 25%"),
        ((*CONTEXT, *GREEDY, "--caps", "0.1=5,0.10=6"), 2, "twice"),
        ((*CONTEXT, *GREEDY, "--caps", "10=5"), 2, "Did you mean 0.10"),
        ((*CONTEXT, *GREEDY, "--caps", "0.15=5"), 1, "which the log never played"),
        ((*CONTEXT, *GREEDY, "--caps", "0.1=0,0.2=0,0.3=0"), 1, "no code for any of 900"),
        ((*CONTEXT, *GREEDY, "--caps", "0.1=250%"), 2, "share of the batch"),
        ((*CONTEXT, "--policy", "greedy", "--batch", "901"), 1, "more than the 900 rows"),
        ((*CONTEXT, *GREEDY, "--skew", "ignore"), 2, "resample or weight"),
        ((*CONTEXT, *GREEDY, "--propensity", "guess"), 2, "column or observed"),
        ((*CONTEXT, *GREEDY, "--encoding", "cubic"), 2, "radial_basis"),
        ((*CONTEXT, *GREEDY, "--caps", "0.1=-5"), 2, "a count"),
        ((*CONTEXT, *GREEDY, "--caps", "0.1=nan%"), 2, "a share of the batch"),
        ((*CONTEXT, *GREEDY, "--policy", "greedy"), 2, "each name once"),
        ((*CONTEXT, "--policy", "greedy", "--batch", "0"), 2, "--batch"),
        ((*CONTEXT, *GREEDY, "--depth-scale", "0"), 2, "--depth-scale"),
        ((*CONTEXT, *GREEDY, "--forgetting", "0"), 2, "--forgetting"),
        ((*CONTEXT, *GREEDY, "--forgetting", "1.2"), 2, "at most 1"),
        ((*CONTEXT, *GREEDY, "--forgetting", "nan"), 2, "--forgetting"),
        ((*CONTEXT, *GREEDY, "--repeats", "-1"), 2, "--repeats"),
        ((*CONTEXT, *GREEDY, "--revenue-weight", "nan"), 2, "--revenue-weight"),
        ((*CONTEXT, *GREEDY, "--warm", "nowhere.parquet"), 1, "no such file"),
        ((*CONTEXT, *GREEDY, "--strata", "county"), 1, "no column county"),
        ((*CONTEXT, *GREEDY, "--engagement-score", "h"), 1, "no column h"),
        ((*CONTEXT, *GREEDY, "--engagement-score", "region"), 1, "values of type"),
        ((*CONTEXT, *GREEDY, "--engagement-score", "depth"), 2, "--engagement-score"),
        (("--context", "x1,x9", *GREEDY), 1, "no column x9"),
        (("--context", ",", *GREEDY), 2, "context columns"),
        (("--context", "x1,x1", *GREEDY), 2, "each name once"),
        (("--context", "x1,full_price", *GREEDY), 2, "known before the depth was assigned"),
        ((*CONTEXT, *GREEDY, "--strata", "depth"), 2, "known before the depth was assigned"),
        ((*CONTEXT, *GREEDY, "--revenue-weight", "1e300"), 2, "--revenue-weight"),
        ((*CONTEXT, *GREEDY, "--revenue-weight", "0.01"), 1, "no code for any of 900 customers"),
        (("--context", "region", *GREEDY), 1, "column region: found values of type string"),
    ],
)
def test_wrong_usage_and_impossible_wishes(disco, write, arguments, exit_code, message):
    code, out, err = disco("replay", write(), *arguments)
    assert (code, out) == (exit_code, "")
    assert message in err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": np.full(900, 20.0)}, "Did you mean 0.20?"),
        ({"depth": pa.array([None] + [0.1] * 899)}, "column depth, row 1: found null"),
        ({"x1": pa.array([None] + [0.1] * 899)}, "column x1, row 1: found null"),
        ({"x1": np.full(900, 9.0)}, "9"),
        ({"full_price": np.full(900, np.nan)}, "column full_price, row 1: found nan"),
        ({"full_price": np.full(900, -5.0)}, "full_price: found -5"),
        ({"propensity": np.full(900, 0.5)}, "sum to 1.5"),
        ({"propensity": np.full(900, 0.0)}, "propensity: found 0"),
        ({"propensity": ["x"] * 900}, "column propensity"),
        ({"propensity": pa.nulls(900)}, "row 1, propensity: found nan"),
        ({"full_price": pa.nulls(900)}, "no purchase in any of its 900 rows"),
        ({"full_price": pa.nulls(900, pa.float64())}, "no purchase in any of its 900 rows"),
        ({"depth": pa.nulls(900)}, "column depth, row 1: found null"),
    ],
)
def test_bad_logs(disco, write, changes, message):
    code, out, err = disco("replay", write(**changes), *CONTEXT, *GREEDY)
    assert (code, out) == (1, "")
    assert message in err


def test_files_that_are_no_logs(disco, tmp_path, write):
    (tmp_path / "text.parquet").write_text("hello")
    assert "a Parquet file" in disco("replay", tmp_path / "text.parquet", *CONTEXT, *GREEDY)[2]
    assert "no such file" in disco("replay", tmp_path / "none.parquet", *CONTEXT, *GREEDY)[2]
    empty = tmp_path / "empty.parquet"
    pq.write_table(pq.read_table(write()).slice(0, 0), empty)
    assert "no rows" in disco("replay", empty, *CONTEXT, *GREEDY)[2]


def test_narrow_types_are_read_as_what_they_say(disco, write):
    """A 32-bit 0.1 is the depth 0.1, money may be decimal, ids may be integers."""
    given = columns()
    plain = json.loads(disco("replay", write(), *CONTEXT, *GREEDY, "--repeats", 0, "--json")[1])
    from decimal import Decimal

    price = [None if value is None else Decimal(repr(round(value, 12))) for value in given["full_price"].to_pylist()]
    narrow = write(
        depth=np.asarray(given["depth"], np.float32),
        full_price=pa.array(price, pa.decimal128(30, 12)),
        customer_id=np.arange(900),
    )
    found = json.loads(disco("replay", narrow, *CONTEXT, *GREEDY, "--repeats", 0, "--json", "--caps", "0.1=200")[1])
    again = json.loads(disco("replay", write(), *CONTEXT, *GREEDY, "--repeats", 0, "--json", "--caps", "0.1=200")[1])
    assert found["depths"] == plain["depths"] == list(DEPTHS)
    assert found["policies"]["greedy"]["accepted"] == again["policies"]["greedy"]["accepted"]


def skewed_columns(rows=900):
    """Depth 0.1 three times as likely as 0.3, in truth and in the propensity column."""
    depth = np.random.default_rng(3).choice([0.1, 0.3], rows, p=[0.75, 0.25])
    return {"depth": depth, "propensity": np.where(depth == 0.1, 0.75, 0.25)}


def test_strata_do_not_set_the_propensity_column_aside(disco, write):
    given = skewed_columns()
    log = write(**given)
    words = ("replay", log, *CONTEXT, *GREEDY, "--skew", "weight", "--repeats", 0, "--json")
    plain, stratified, observed = (
        json.loads(disco(*words, *more)[1])["policies"]["greedy"]["revenue_per_customer"]["ips"]["value"]
        for more in ((), ("--strata", "region"), ("--strata", "region", "--propensity", "observed"))
    )
    assert stratified == plain
    assert observed != plain
    wrong = write("wrong.parquet", **given | {"propensity": np.where(given["depth"] == 0.1, 0.75, 0.5)})
    code, _, err = disco("replay", wrong, *CONTEXT, *GREEDY, "--strata", "region")
    assert code == 1
    assert "sum to 1.25" in err


def test_every_batch_of_a_resampled_log_has_its_mean_over_the_passes(disco, write):
    """Each pass keeps other rows, so some are a batch shorter than the first; the others still speak."""
    log = write(**skewed_columns())
    words = ("replay", log, *CONTEXT, "--policy", "greedy", "--batch", 100, "--repeats", 8, "--json")
    series = json.loads(disco(*words)[1])["policies"]["greedy"]["series"]
    assert len(series) == 5
    assert all(batch["repeats_mean"] > 0 for batch in series)
    assert all(batch["repeats_sd"] > 0 for batch in series[:-1])


def test_one_customer_shows_no_spread(disco, write):
    """All rows are one customer's: every resampled log is the same one, which must not read as certainty."""
    words = ("replay", write(customer_id=["me"] * 900), *CONTEXT, *GREEDY, "--json")
    for repeats in (0, 4):
        found = json.loads(disco(*words, "--repeats", repeats)[1])["policies"]["greedy"]
        assert found["standard_error"] is None
        assert found["interval"] == [None, None]


@pytest.mark.parametrize(("given", "found"), [(["me"], "list"), (b"\xff", "binary")])
def test_ids_that_are_lists_or_bytes_are_refused_by_name(disco, write, given, found):
    code, _, error = disco("replay", write(customer_id=[given] * 900), *CONTEXT, *GREEDY)
    assert code == 1
    assert f"column customer_id: found {found}" in error


def test_a_warm_log_teaches_engagement_too(disco, write):
    """Everybody buys at 0.3 and nobody at 0.1 in the warm log: engagement learned there must steer the first batch."""
    rows = columns()
    sure = np.asarray(rows["depth"]) > 0.15
    prices = np.where(sure, 50.0 - 60.0 * np.asarray(rows["depth"]), np.nan)  # a code of 0.2 gives the larger basket
    rare = (np.asarray(rows["depth"]) > 0.25) | (np.random.default_rng(4).random(900) < 0.02)
    warm = write("warm.parquet", full_price=pa.array(np.where(rare, prices, np.nan), from_pandas=True))
    words = (
        "replay",
        write(),
        *CONTEXT,
        "--policy",
        "greedy",
        "--batch",
        900,
        "--repeats",
        0,
        "--warm",
        warm,
        "--json",
    )
    plain = json.loads(disco(*words)[1])["policies"]["greedy"]["codes"]
    learned = json.loads(disco(*words, "--learn-engagement")[1])["policies"]["greedy"]["codes"]
    assert learned["0.3"] == 900
    assert plain["0.3"] < 450
