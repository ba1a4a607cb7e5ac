"""A reader knows after one sentence how a campaign did; the tables below say the same on page and terminal."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pytest

from disco.evaluation.read_out import ArmOutcomes, ArmSummary, Finding, Verdict, ab_test
from disco.operations.results import AllResults, CampaignResults, GroupResult
from disco.records.campaign_records import CampaignRecord, State
from disco.records.decisions import Arm, IngestCounts
from disco.records.estimate import Estimate
from disco.records.plan import read_plan
from disco.records.plan_summary import MoneyForecast, Solution
from disco.views.campaign_pages import campaign_report, campaigns_report
from disco.views.campaign_tables import arms_table, campaigns_table
from disco.views.charts import IntervalChart


def record(name: str, *, state: State = State.LAUNCHED, policy: str = "thompson") -> CampaignRecord:
    content = {
        "campaign": name,
        "customers": {"as_of": "2027-03-01"},
        "depths": {0.2: {}},
        "objective": {"revenue_weight": 3},
        "policy": {"name": policy},
        "valid": {"from": "2027-03-08", "days": 14},
    }
    solution = Solution(
        depths=(0.2,),
        prices=None,
        budget_price=0.0,
        engagement=(0.1,),
        status="",
        value=0.0,
        bound=0.0,
        gap=0.0,
        policy=policy,
        reserve=(None,),
        reserve_budget=None,
    )
    return CampaignRecord(
        campaign=name,
        plan_id="0123",
        plan=read_plan(content),
        state=state,
        integer_ids=True,
        context_size=2,
        network="network",
        version=None,
        solution=solution,
        launched_at=datetime(2027, 3, 8, tzinfo=UTC),
    )


def arm_result(full_price: np.ndarray, depth: float) -> GroupResult:
    outcomes = ArmOutcomes(
        depth=np.full(full_price.size, depth), full_price=np.nan_to_num(full_price), before=None, other_revenue=None
    )
    return GroupResult(summary=ArmSummary.of(outcomes), codes={depth: 1}, expected_revenue=None, expected_markdown=None)


def results(
    name: str = "spring",
    *,
    gain: float = 0.0,
    control: bool = True,
    final: bool = True,
    state: State = State.LAUNCHED,
    as_of: date = date(2027, 4, 1),
    expected: MoneyForecast | None = None,
) -> CampaignResults:
    """2,000 decided and 2,000 control customers; one in two buys for 40, a decided one for `gain` more."""
    base = np.where(np.arange(2000) % 2 == 0, 40.0 + np.arange(2000) % 7, np.nan)
    decided = base + gain
    ab = None
    if control:
        arms = ["test"] * 2000 + ["control"] * 2000
        ab = ab_test(
            arms,
            np.full(4000, 0.2),
            np.concatenate([decided, base]),
            revenue_weight=3.0,
            shares={"test": 0.5, "control": 0.5},
            final=final,
            planned_purchasers=None if final else 4000,
        )
    arms_found = {Arm.DECIDED: arm_result(decided, 0.2)} | ({Arm.CONTROL: arm_result(base, 0.2)} if control else {})
    return CampaignResults.of(
        record(name, state=state),
        as_of=as_of,
        final=final,
        counts=IngestCounts(received=2001, applied=2000, expired=1),
        arms=arms_found,
        late=None,
        ab=ab,
        why_not=None if control else "There is no control group to compare with.",
        detectable=0.05 if control else None,
        expected=expected,
    )


def forecast(mean: float, half: float) -> MoneyForecast:
    interval = Estimate(mean, mean - half, mean + half, level=0.9)
    return MoneyForecast(revenue=interval, markdown=interval, reward=interval)


def test_the_lead_says_how_much_better_with_intervals_and_what_it_means_in_money() -> None:
    found = results(gain=8.0)
    lead = campaign_report(found).lead
    # 1,000 buyers paid 0.8 · 8 more each; the objective of one code is (3 · 0.8 − 0.2) times the full price
    said = re.fullmatch(
        r"Decided codes did better than random codes: objective \+(\d+)% \(\+(\d+)% to \+(\d+)%\), "
        r"revenue \+£6\.40k \(\+£[\d.]+k to \+£[\d.]+k\)\.",
        lead,
    )
    assert said is not None, lead
    assert int(said[2]) < int(said[1]) == round(100 * 8.0 / np.mean(40.0 + np.arange(0, 2000, 2) % 7)) < int(said[3])
    assert found.extra_revenue is not None
    assert found.ab is not None
    each = found.ab.finding("revenue").decisive.difference
    assert found.extra_revenue.ends == pytest.approx([2000 * end for end in each.ends or ()])


def test_the_lead_of_a_worse_undecided_or_running_campaign_says_so() -> None:
    worse = campaign_report(results(gain=-8.0)).lead
    assert re.match(r"Decided codes did worse than random codes: objective −\d+% \(−\d+% to −\d+%\)", worse), worse
    assert ", revenue −£6.40k (−£" in worse
    undecided = campaign_report(results(gain=0.0)).lead
    assert re.match(r"No clear difference from random codes: objective 0% \(−\d% to \+\d%\), revenue £0 \(", undecided)
    running = campaign_report(results(gain=0.0, final=False, as_of=date(2027, 3, 10))).lead
    assert running.startswith("Early: day 3 of 14. No clear difference from random codes yet: objective 0% (")
    late = campaign_report(results(gain=8.0, final=False, as_of=date(2027, 3, 22))).lead
    assert late.startswith(
        "Early: all codes have expired, and the last purchases may still be reported. Decided codes have done better"
    )


def test_a_missed_forecast_leads_once_all_purchases_are_known() -> None:
    missed = "Revenue was 51% below forecast: £34.4k, expected £70.0k (£60.0k to £80.0k)."
    over = "Code cost was 719% above forecast: £8.60k, expected £1.05k (£1.00k to £1.10k)."
    tight = Estimate(1_050.0, 1_000.0, 1_100.0, level=0.9)
    expected = replace(forecast(70_000.0, 10_000.0), markdown=tight)
    found = results(control=False, expected=expected)
    assert found.against_forecast is not None
    assert found.against_forecast.brief == "revenue 51% below forecast and code cost 719% above forecast"
    assert campaign_report(found).lead.endswith(f"{missed} {over}")
    running = results(control=False, expected=expected, final=False, as_of=date(2027, 3, 23))
    assert "forecast" not in campaign_report(running).lead
    assert "The forecast is compared on 24 Mar 2027, when the last purchases have been reported." in running.words
    assert campaigns_table([found, running]).text()[0][6] == found.against_forecast.brief
    assert campaigns_table([found, running]).text()[1][6] == "not yet"


def test_a_percentage_without_limits_is_neither_said_nor_drawn() -> None:
    found = results(gain=8.0)
    assert found.ab is not None

    def unlimited(one: Finding) -> Finding:
        relative = Estimate(34.3, -np.inf, np.inf, 0.95)
        return replace(one, comparison=replace(one.comparison, relative=relative))

    ab = replace(found.ab, findings=tuple(map(unlimited, found.ab.findings)), deciding=unlimited(found.ab.deciding))
    doubtful = replace(found, ab=ab)
    page = campaign_report(doubtful)
    assert page.lead.startswith("Decided codes did better than random codes: revenue +£6.40k (+£")
    (table,) = (item for item in page.sections[0].items if "Relative (95%)" in str(item))
    assert {row[-1] for row in table.text()} == {"–"}
    assert not any(isinstance(item, IntervalChart) for section in page.sections for item in section.items)
    several = campaigns_report(AllResults.of([doubtful]))
    assert several.lead == "£75.2k of revenue from 1 campaign; no forecast yet."
    together = campaigns_report(AllResults.of([doubtful, results("summer", gain=8.0)]))
    (chart,) = (item for section in together.sections for item in section.items if isinstance(item, IntervalChart))
    assert chart.title == "Decided codes did clearly better than random ones in 2 of 2 campaigns"
    assert [row.label for row in chart.rows] == ["summer"]


def test_without_a_control_group_the_lead_is_money() -> None:
    lead = campaign_report(results(control=False)).lead
    assert re.fullmatch(
        r"£34\.\dk of revenue from 1,000 purchases\. There is no control group to compare with\.", lead
    ), lead


@pytest.mark.parametrize(
    ("state", "final", "day", "says"),
    [
        (State.LAUNCHED, True, date(2027, 4, 1), "Campaign spring has ended: all codes have expired."),
        (State.LAUNCHED, False, date(2027, 3, 21), "Campaign spring is still running; figures as of 21 Mar 2027."),
        (
            State.LAUNCHED,
            False,
            date(2027, 3, 22),
            "Campaign spring has ended: all codes have expired, outcomes may still arrive. Figures as of 22 Mar 2027.",
        ),
        (State.PAUSED, False, date(2027, 3, 21), "Campaign spring is paused; figures as of 21 Mar 2027."),
        (State.LAUNCHED, False, date(2027, 3, 7), "Campaign spring starts on 8 Mar 2027."),
        (State.CLOSED, False, date(2027, 4, 1), "Campaign spring is closed."),
    ],
)
def test_the_state_is_said_as_people_say_it(state: State, final: bool, day: date, says: str) -> None:
    said = results(state=state, final=final, as_of=day).words
    assert said[0].startswith(says)
    assert "2,001 outcomes received: 2,000 counted, 1 expired." in said[0]


def test_a_page_has_each_heading_once_and_states_findings() -> None:
    page = campaign_report(results(gain=8.0))
    titles = [
        getattr(item, "title", getattr(item, "caption", "")) for section in page.sections for item in section.items
    ]
    headings = [section.heading for section in page.sections]
    assert len({*titles, *headings}) == len(titles) + len(headings)
    assert "The decided group did better than control" in titles
    assert page.footer == "Codes valid 8–21 Mar 2027; read on 1 Apr 2027."


def test_every_row_of_the_findings_has_its_own_unit() -> None:
    page = campaign_report(results(gain=8.0))
    table = next(
        item for section in page.sections for item in section.items if "per customer" in getattr(item, "caption", "")
    )
    by_name = {row[0]: row[1:] for row in table.text()}
    assert by_name["Revenue"][0].startswith("£")
    assert by_name["Engagement"][0] == "50.0%"
    assert by_name["Engagement"][2].startswith("0.0 pts (−")
    assert "<0.001" not in by_name["Revenue"]  # p values are for statisticians
    assert page.sections[-1].heading == "For statisticians"
    p_values = dict(page.sections[-1].items[0].text())
    assert p_values["Revenue per customer, decided group against control"] == "<0.001"


def test_what_operators_read_has_no_symbols_of_statisticians() -> None:
    page = campaign_report(results(gain=8.0))
    read = [section for section in page.sections if not section.folded]
    shown = " ".join(
        [page.lead, *(section.text for section in read), *(str(item) for one in read for item in one.items)]
    )
    assert not re.search(r"\bp [=<]|Holm|w ×|'p'", shown), shown
    assert page.sections[0].heading == "Did deciding help?"


def test_a_holdout_buys_nothing_with_codes_rather_than_nothing() -> None:
    found = results(gain=8.0)
    holdout = arm_result(np.full(50, np.nan), 0.0)
    holdout = replace(holdout, summary=replace(holdout.summary, recipients=0))
    table = arms_table(replace(found, arms={**found.arms, Arm.HOLDOUT: holdout}))
    assert table.text()[-1] == ("Holdout, no code", "50", "0", "–", "–", "–", "–", "–")


def test_the_year_says_how_forecasts_did_in_one_sentence() -> None:
    several = [
        results("2027-01", gain=8.0, expected=forecast(40_000.0, 3_000.0)),
        results("2027-02", expected=forecast(68_000.0, 4_000.0)),
        results("2027-03", control=False),
    ]
    page = campaigns_report(AllResults.of(several))
    revenue = [sum(arm.summary.revenue for arm in one.arms.values()) for one in several[:2]]
    chart = page.sections[1].items[0]
    assert chart.title == "Revenue was inside its forecast range in 1 of 2 campaigns"
    alone = campaigns_report(AllResults.of([replace(one, ab=None, verdict=None) for one in several]))
    assert alone.lead == (f"{chart.title}: £{sum(revenue) / 1e3:.0f}k actual, £108k expected.")
    assert [entry.label for entry in chart.key()] == ["Forecast", "Actual", "90% interval"]
    assert [row[0] for row in chart.table().text()] == ["2027-01", "2027-02"]
    assert chart.lines == ()  # independent campaigns are not joined
    assert [column.heading for column in campaigns_table(several).typed_columns()][5] == "Actual revenue"


def test_two_campaigns_are_both() -> None:
    several = [results(name, gain=8.0, expected=forecast(76_000.0, 50_000.0)) for name in ("2027-01", "2027-02")]
    chart, uplift, *_ = campaigns_report(AllResults.of(several)).sections[1].items
    assert chart.title == "Revenue was inside its forecast range in both campaigns"
    assert uplift.title == "Decided codes did clearly better than random ones in 2 of 2 campaigns"


def test_a_year_without_a_clear_gain_says_so() -> None:
    uplift = campaigns_report(AllResults.of([results("2027-01"), results("2027-02")])).sections[1].items[0]
    assert uplift.title == "No campaign alone shows a clear gain of decided codes over random ones"


def test_a_year_without_forecasts_is_money() -> None:
    page = campaigns_report(AllResults.of([results("2027-01", control=False)]))
    assert re.fullmatch(r"£34\.\dk of revenue from 1 campaign; no forecast yet\.", page.lead), page.lead


@pytest.mark.parametrize(("gain", "says", "earned"), [(8.0, "better", "+£19.2k (+£"), (-8.0, "worse", "−£19.2k (−£")])
def test_the_year_leads_with_what_deciding_earned(gain: float, says: str, earned: str) -> None:
    several = AllResults.of([results(f"2027-0{month}", gain=gain) for month in (1, 2, 3)])
    lead = campaigns_report(several).lead
    assert lead.startswith(f"Decided codes did {says} than random codes over 3 campaigns: objective ")
    assert f", revenue {earned}" in lead  # 3 · 1,000 · 0.8 · 8


def test_a_year_without_a_clear_difference_says_so() -> None:
    lead = campaigns_report(AllResults.of([results("2027-01"), results("2027-02")])).lead
    assert re.match(
        r"No clear difference from random codes over 2 campaigns: objective 0% \(−\d+% to \+\d+%\), revenue £0 \(", lead
    ), lead


def test_running_and_random_campaigns_are_not_pooled() -> None:
    running = results("2027-01", gain=8.0, final=False)
    random = replace(results("2027-02", gain=8.0), plan=record("2027-02", policy="random").plan)
    blocked = replace(results("2027-03", gain=8.0), verdict=Verdict.BLOCKED)
    found = AllResults.of([running, random, blocked])
    assert (dict(found.against_control), found.against_holdout) == ({}, None)


def test_a_holdout_alone_is_compared_and_leads() -> None:
    base = np.where(np.arange(2000) % 2 == 0, 40.0 + np.arange(2000) % 7, np.nan)
    other = np.concatenate([np.zeros(2000), np.nan_to_num(base) / 4])
    ab = ab_test(
        ["decided"] * 2000 + ["holdout"] * 2000,
        np.repeat([0.2, np.nan], 2000),
        np.concatenate([base, np.full(2000, np.nan)]),
        revenue_weight=3.0,
        other_revenue=other,
    )
    found = replace(
        results(control=False), ab=ab, verdict=ab.verdict, incremental={Arm.DECIDED: ab.incremental["decided"]}
    )
    page = campaign_report(found)
    assert re.fullmatch(r"Decided codes did better than no codes: revenue \+220% \(\+\d+% to \+\d+%\)\.", page.lead), (
        page.lead
    )
    assert [section.heading for section in page.sections] == [
        "What each group bought",
        "Compared with simpler campaigns",
        "For statisticians",
    ]
    together = campaigns_report(AllResults.of([found]))
    assert re.fullmatch(
        r"Decided codes did better than no codes over 1 campaign: revenue \+220% \(\+\d+% to \+\d+%\), "
        r"\+£23\.6k \(\+£[\d.]+k to \+£[\d.]+k\)\.",
        together.lead,
    ), together.lead
