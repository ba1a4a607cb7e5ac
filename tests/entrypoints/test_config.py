"""Settings: file, then environment, then flags; unknown names refused with the nearest one."""

from pathlib import Path

import pytest

from disco.entrypoints.config import Settings, load_settings
from disco.records.errors import PlanError


def write(folder: Path, text: str) -> Path:
    (folder / "disco.yaml").write_text(text)
    return folder


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(tmp_path, environment={}) == Settings()


def test_environment_overrides_the_file_and_flags_override_both(tmp_path: Path) -> None:
    shop = write(tmp_path, "database_url: sqlite:///file.db\nthreads: 1\ndata: tables\n")
    environment = {"DISCO_DATABASE_URL": "sqlite:///environment.db", "DISCO_THREADS": "2"}
    settings = load_settings(shop, environment=environment, flags={"threads": 3, "engine": None})
    assert settings.data == "tables"
    assert settings.database_url == "sqlite:///environment.db"
    assert settings.threads == 3
    assert settings.engine == "local"


def test_every_problem_at_once_each_with_its_origin(tmp_path: Path) -> None:
    shop = write(tmp_path, "databse_url: x\nengine: spork\n")
    with pytest.raises(PlanError) as caught:
        load_settings(shop, environment={"DISCO_THREADS": "none"}, flags={})
    message = str(caught.value)
    assert "Did you mean database_url?" in message
    assert "'spork'; expected 'local'" in message
    assert "DISCO_THREADS" in message
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("text", ["- a\n- b\n", "data: [\n", "just words", "1: 2\n"])
def test_a_file_that_is_no_settings_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(PlanError, match=r"disco\.yaml"):
        load_settings(write(tmp_path, text), environment={})


def test_an_empty_file_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, ""), environment={}) == Settings()
    assert load_settings(write(tmp_path, "\ufeffdata: here\n"), environment={}).data == "here"


def test_tables_are_seen_from_the_shop_and_urls_are_not(tmp_path: Path) -> None:
    assert Settings().data_place(tmp_path) == str(tmp_path / "data")
    assert Settings(data="sqlite:///x.db").data_place(tmp_path) == "sqlite:///x.db"


def test_a_sqlite_file_is_seen_from_the_shop_and_other_databases_are_not(tmp_path: Path) -> None:
    assert Settings().database_place(tmp_path) == f"sqlite:///{tmp_path / 'disco.db'}"
    for url in ("sqlite:////var/disco.db", "postgresql://me@host/disco", "sqlite://", "sqlite:///:memory:"):
        assert Settings(database_url=url).database_place(tmp_path) == url


def test_an_unknown_key_of_a_section_is_named_with_its_neighbours(tmp_path: Path) -> None:
    shop = write(tmp_path, "model: {forgeting: 0.9, encoding: {kind: radial_basis, gama: 2}}\n")
    with pytest.raises(PlanError) as caught:
        load_settings(shop, environment={})
    message = str(caught.value)
    assert "Did you mean forgetting?" in message
    assert "Did you mean gamma?" in message
