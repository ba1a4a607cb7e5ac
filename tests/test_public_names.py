"""The names users import exist, come from one place, and cost nothing until used."""

import subprocess
import sys

import pytest

import disco


def test_every_public_name_loads_and_nothing_else_is_promised():
    for name in disco.__all__:
        assert getattr(disco, name) is not None
    assert set(disco.__all__) == {"__version__", *disco._HOME_OF}
    assert dir(disco) == disco.__all__


def test_an_unknown_name_is_an_attribute_error_that_helps():
    with pytest.raises(AttributeError, match="allocate"):
        disco.alocate  # noqa: B018 the access is the test


def test_importing_disco_loads_no_heavy_library():
    heavy = ("numpy", "numba", "pyarrow", "duckdb", "torch", "scipy", "sqlalchemy")
    program = f"import sys, disco; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
