"""Files at the door: keys given twice are refused, and what is no YAML."""

from datetime import date
from pathlib import Path

import pytest

from disco.adapters.files import read_yaml
from disco.entrypoints.new_shop import TEMPLATES
from disco.records.errors import FileFormatError, PlanError
from disco.records.plan import read_plan


def yaml_file(folder: Path, content: str | bytes) -> Path:
    path = folder / "plan.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "text",
    ["caps: {0.1: 1, 0.10: 3}", "a: 1\nb: 2\na: 3", "list: [{x: 1}, {y: {z: 1, z: 2}}]", '{"0.1": 1, "0.10": 2}'],
)
def test_a_key_given_twice_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileFormatError, match="twice"):
        read_yaml(yaml_file(tmp_path, text))


def test_equal_keys_in_different_places_are_fine(tmp_path: Path) -> None:
    assert read_yaml(yaml_file(tmp_path, "\ufeffa: {x: 1}\nb: {x: 2}\n")) == {"a": {"x": 1}, "b": {"x": 2}}
    shared = read_yaml(yaml_file(tmp_path, "a: &one {x: 1}\nb: *one\nc: *one"))
    assert shared["b"] == shared["c"] == {"x": 1}
    assert read_yaml(yaml_file(tmp_path, "")) is None


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a: [1", b"[" * 5000, b"a: 2027-13-45"])
def test_what_is_no_yaml_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(FileFormatError, match=r"plan\.yaml"):
        read_yaml(yaml_file(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("data: x\n b: [1\n", r"line 2, column 3, which is not YAML \(mapping values are not allowed here\)"),
        (b"a: caf\xe9", "byte 7, which is not UTF-8"),
        ("a: &a [1, *a]", "an alias within the value that it stands for"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_the_place_of_the_mistake_is_named(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(FileFormatError, match=words):
        read_yaml(yaml_file(tmp_path, content))


def test_aliases_of_aliases_are_not_expanded(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{step}: &a{step} [{', '.join([f'*a{step - 1}'] * 9)}]" for step in range(1, 12)]
    with pytest.raises(FileFormatError, match=r"aliases that expand to [0-9.e+]+ characters") as refused:
        read_yaml(yaml_file(tmp_path, "\n".join([*lines, "campaign: *a11"])))
    assert len(str(refused.value)) < 500


def test_a_value_of_ten_megabytes_is_cut_in_the_message(tmp_path: Path) -> None:
    content = read_yaml(yaml_file(tmp_path, "campaign: " + "x" * 10_000_000))
    with pytest.raises(PlanError, match=r"x… \(10,000,002 characters\)") as refused:
        read_plan(content)
    assert len(str(refused.value)) < 2000


@pytest.mark.parametrize(
    "text", ["1:30:00", "1_000", "0777", "0b11", "0x1F", "1:30.5", "1_0.5", "yes", "no", "On", "off", "=", "9" * 101]
)
def test_only_decimal_numbers_and_true_and_false_are_more_than_text(tmp_path: Path, text: str) -> None:
    assert read_yaml(yaml_file(tmp_path, f"a: {text}\n{text}: 1")) == {"a": text, text: 1}


def test_decimal_numbers_days_and_truths_are_read(tmp_path: Path) -> None:
    content = "[0, -5, +5, 10000, 0.10, -1.5, .5, 1.5e+3, true, False, 2027-03-08, null, ~]"
    expected = [0, -5, 5, 10000, 0.1, -1.5, 0.5, 1500.0, True, False, date(2027, 3, 8), None, None]
    assert read_yaml(yaml_file(tmp_path, content)) == expected


@pytest.mark.parametrize("seed", ["1:30:00", "0x" + "f" * 4000, "9" * 5000, "1" + "0" * 20])
def test_a_seed_that_is_no_usual_number_is_refused_by_name(tmp_path: Path, seed: str) -> None:
    content = read_yaml(TEMPLATES / "plan.yaml") | read_yaml(yaml_file(tmp_path, f"seed: {seed}"))
    with pytest.raises(PlanError, match=r"plan, seed: found .* expected a whole number") as refused:
        read_plan(content)
    assert len(str(refused.value)) < 500
