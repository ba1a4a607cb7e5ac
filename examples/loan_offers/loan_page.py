"""The findings as one HTML page."""

from findings import POLICIES, Findings
from honesty import expected_inside
from judging import LOAN_VALUE, OBJECTIVE, PLACEBO_ROUNDS, TAKE_UP
from loan_charts import calibration_chart, clear, curve, gain_chart, step_chart
from loan_tables import (
    CHANGES,
    cell_table,
    estimate,
    estimator_table,
    fold_table,
    gain_facts,
    loan_size_table,
    named,
    ordering_table,
    placebo_table,
    slope_table,
    value_table,
)

from disco.reports import Report, Section
from disco.reports.formats import estimate_text

_REAL = (
    "If this is the file of Karlan and Zinman's lender: D. Karlan and J. Zinman (2008), Credit Elasticities in "
    "Less-Developed Economies, American Economic Review 98(3), deposit 113240, data under CC BY 4.0; the depth is "
    "1 − offered rate / standard rate of the risk band."
)
_GENERATED = "GENERATED DATA: a look-alike made up by this example. Nothing on this page says anything about the world."


def page(found: Findings) -> Report:
    weight = f"{found.trial.revenue_weight:g}"
    return Report(
        title="Loan offers: a look-alike, generated" if found.generated else "Loan offers with a randomised price",
        lead=_lead(found),
        sections=[
            Section(
                "Does a deeper offer bring more?",
                _curve_text(found),
                [curve(found, f) for f in (TAKE_UP, LOAN_VALUE)],
                True,
            ),
            Section(
                "Which depths can be told apart?",
                "Everybody at one level against everybody at the next shallower one, and the two ends of the scale; "
                "doubly robust, with the strata's propensities. Of several such intervals at 95 % one may miss 0 by "
                "luck alone.",
                [*(step_chart(found, figure) for figure in (TAKE_UP, LOAN_VALUE)), slope_table(found)],
            ),
            Section(
                "What would other policies have been worth?",
                f"{found.how_split} The policies send the very letters of the experiment, as many per level and risk "
                f"band, to other customers. Greedy and Thompson maximise {weight} × revenue − markdown, with loan × "
                "(1 − depth) as revenue: the loan at its share of the standard rate, not the lender's books. The third "
                "policy maximises the loans themselves, whatever their price. “Everybody” rows give one level to all."
                "\n\nRead order and intervals, not percentages: an interval that covers 0 means that this campaign "
                "cannot tell the policy from the offers as dealt, and of several that do not one may be luck. "
                "“Promised” is what the policy's own belief foretold.",
                [
                    gain_facts(found),
                    gain_chart(found, OBJECTIVE),
                    gain_chart(found, LOAN_VALUE),
                    value_table(found),
                    estimator_table(found),
                    fold_table(found),
                ],
            ),
            Section(
                "Can the beliefs and the intervals be believed?",
                _honesty_text(found),
                [
                    ordering_table(found),
                    calibration_chart(found),
                    loan_size_table(found),
                    placebo_table(found),
                    cell_table(found),
                ],
            ),
        ],
        footer=f"{_GENERATED if found.generated else _REAL}\n\nSource: {found.source}. {len(found.offers):,} letters, "
        f"{int(found.offers.took.sum()):,} takers. Money in rand. Intervals are 95 % unless they say otherwise.",
    )


def _lead(found: Findings) -> str:
    *neighbours, (_, ends) = found.steps[TAKE_UP]
    told = sum(clear(step) for _, step in neighbours)
    points = [f"{100 * value:+.1f}".replace("-", "−") for value in (ends.value, ends.lower, ends.upper)]
    unit, gains = CHANGES[OBJECTIVE], {name: found.judged[name, OBJECTIVE].gain for name in POLICIES}
    above = [
        f"{named(found, name)}, {estimate_text(estimate(gain), unit=unit)}"
        for name, gain in gains.items()
        if gain.lower > 0
    ]
    policies = (
        f"of {len(gains)} policies that send the same letters to other customers, {len(above) or 'none'} "
        f"{'has' if len(above) < 2 else 'have'} a gain in the objective whose interval lies above 0"
    )
    if above:
        policies += f" (per letter, {'; '.join(above)})"
    return (
        f"{'Generated data. ' if found.generated else ''}From the shallowest to the deepest offers take-up changes by "
        f"{points[0]} points ({points[1]} to {points[2]}); {told} of {len(neighbours)} neighbouring levels can be told "
        f"apart; {policies}."
    )


def _curve_text(found: Findings) -> str:
    return (
        "Depths were dealt at random only within risk band and wave, so every figure compares like with like: it is "
        "the mean within each stratum, weighted by the stratum's share of all letters. The grey line forgets the "
        "strata and mixes the effect of depth with who got the deep offers.\n\n"
        f"Depth is nearly continuous; letters are grouped into {len(found.offers.level_depths)} levels of about equal "
        "size that every stratum has seen." + "".join(f"\n\nCaution: {note}" for note in found.doubts)
    )


def _honesty_text(found: Findings) -> str:
    inside, (low, high) = sum(cell.inside for cell in found.cells), expected_inside(len(found.cells))
    return (
        f"Take-up per band and level was foretold with 90 % intervals: {inside} of {len(found.cells)} held; if they "
        f"were right and independent, {low} to {high} would. They know the noise of counts, not that a band may "
        "change from one wave to the next.\n\n"
        f"The intervals of the gains were tested where the truth is known: the levels were dealt anew {PLACEBO_ROUNDS} "
        "times within strata, customers and outcomes staying as they are. Then no policy gains anything, and a 95 % "
        "interval must cover 0 in about 95 of 100 deals."
    )
