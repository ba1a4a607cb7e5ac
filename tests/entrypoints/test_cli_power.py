"""`disco power` from outside: its three questions, and wrong usage."""

import json

import pytest

FIGURES = ("power", "--baseline", "40", "--sd", "30")


def test_how_many_customers(disco):
    code, out, _ = disco(*FIGURES, "--uplift", "1%", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["customers"] == found["control"] + found["decided"]
    # 2·(1.96 + 0.84)²·(30/0.4)² per arm
    assert found["customers"] == pytest.approx(4 * 7.849 * 75**2, rel=0.02)


def test_the_three_questions_agree(disco):
    needed = json.loads(disco(*FIGURES, "--uplift", "0.02", "--power", "90%", "--json")[1])["customers"]
    chance = json.loads(disco(*FIGURES, "--uplift", "2%", "--customers", needed, "--json")[1])["power"]
    least = json.loads(disco(*FIGURES, "--customers", needed, "--power", "0.9", "--json")[1])["uplift"]
    assert chance == pytest.approx(0.9, abs=1e-4)
    assert least == pytest.approx(0.02, rel=1e-3)


def test_options_move_the_count_the_right_way(disco):
    def needed(*more):
        return json.loads(disco(*FIGURES, "--uplift", "2%", "--json", *more)[1])["customers"]

    plain = needed()
    assert needed("--control-share", "10%") > plain
    assert needed("--explained", "30%") == pytest.approx(0.7 * plain, rel=0.001)
    assert needed("--level", "99%") > plain
    assert needed("--engagement", "10%") > 10 * plain


def test_words_for_people(disco):
    said = disco(*FIGURES, "--uplift", "1%")[1]
    assert "in control" in said
    assert "give a chance of 80% of detecting an uplift of 1%." in said
    assert "a chance of 80%" in disco(*FIGURES, "--customers", "10000")[1]
    assert "buy" in disco(*FIGURES, "--customers", "10000", "--uplift", "5%", "--engagement", "8%")[1]
    assert "the 30.0% of its variance" in disco(*FIGURES, "--uplift", "1%", "--explained", "30%")[1]
    assert "an uplift of −20%" in disco("power", "--rate", "5%", "--uplift", "-20%")[1]
    assert disco(*FIGURES, "--uplift", "1%", "--quiet")[1] == ""


def test_a_rate_that_cannot_be_says_what_can(disco):
    assert "found 500%; expected at most 455.6%" in disco("power", "--rate", "18%", "--uplift", "500%")[2]
    assert "142 are the fewest, for an uplift of 11.11%" in disco("power", "--rate", "90%", "--customers", "10")[2]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ((), 2, "needs --uplift, --customers, or both"),
        (("--uplift", "a lot"), 2, "a share such as 1%"),
        (("--uplift", "5"), 2, "Did you mean 5%?"),
        (("--uplift", "0%"), 2, "--uplift"),
        (("--uplift", "nan"), 2, "--uplift"),
        (("--uplift", "1%", "--power", "150%"), 2, "--power"),
        (("--uplift", "1%", "--level", "0"), 2, "--level"),
        (("--uplift", "1%", "--control-share", "100%"), 2, "--control-share"),
        (("--uplift", "1%", "--engagement", "0%"), 2, "--engagement"),
        (("--customers", "2"), 2, "at least 4"),
        (("--uplift", "1e-6%", "--sd", "1e9"), 2, "some number of customers"),
        (("--uplift", "1%", "--explained", "100%"), 2, "--explained"),
        (("--uplift", "1%", "--baseline", "0"), 2, "--baseline"),
    ],
)
def test_wrong_usage(disco, arguments, exit_code, message):
    code, out, err = disco(*FIGURES, *arguments)
    assert (code, out) == (exit_code, "")
    assert message in err
