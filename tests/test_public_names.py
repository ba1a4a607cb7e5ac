"""The names users import exist, come from one place, and cost nothing until used."""

import ast
import importlib
import inspect
import pickle
import pydoc
import subprocess
import sys

import numpy as np
import pytest

import disco
from disco.adapters.engines import LocalEngine
from disco.records.errors import InputError


def test_every_public_name_loads_and_nothing_else_is_promised():
    for name in disco.__all__:
        assert getattr(disco, name) is not None
    assert set(disco.__all__) == {"__version__", *disco._HOME_OF}
    assert dir(disco) == disco.__all__


def test_type_checkers_read_the_same_names_from_the_same_modules():
    tree = ast.parse(inspect.getsource(disco))
    (block,) = (part for part in tree.body if isinstance(part, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    seen = {name.asname: (part.module, name.name) for part in block.body for name in part.names}
    assert seen == {name: (module, name) for name, module in disco._HOME_OF.items()}


def test_public_names_come_from_their_modules():
    for name, module in disco._HOME_OF.items():
        home = importlib.import_module(module)
        assert getattr(getattr(disco, name), "__wrapped__", getattr(disco, name)) is getattr(home, name)


@pytest.mark.parametrize("engine", ["local", LocalEngine, 2])
def test_an_engine_given_by_name_or_class_is_refused_in_a_sentence_however_few_the_rows(engine):
    with pytest.raises(InputError, match=r"engine: found .*not its name or class.*disco\.LocalEngine\(threads=2\)"):
        disco.allocate([[1.0]], [1], engine=engine)
    rows = np.zeros((2, 1)), [0.1, 0.2], [20.0, 30.0]
    with pytest.raises(InputError, match=r"disco\.LocalEngine"):
        disco.BasketModel().update(*rows, engine=engine)


def test_every_public_method_says_what_it_does():
    silent = []
    for name in disco.__all__:
        thing = getattr(disco, name)
        if not inspect.isclass(thing):
            continue
        members = {key: value for key, value in vars(thing).items() if not key.startswith("_")}
        silent += [
            f"{name}.{key}"
            for key, value in members.items()
            if (inspect.isfunction(value) or isinstance(value, classmethod | property)) and not value.__doc__
        ]
    assert silent == []


def test_help_names_types_by_their_names_and_a_function_fits_a_screen():
    for name in disco._HOME_OF:
        thing = getattr(disco, name)
        text = pydoc.plain(pydoc.render_doc(thing))
        assert "_NestedSequence" not in text, name  # what ArrayLike is made of
        assert inspect.isclass(thing) or inspect.ismodule(thing) or len(text.splitlines()) <= 40, name


def test_an_unknown_name_is_an_attribute_error_that_helps():
    with pytest.raises(AttributeError, match="allocate"):
        disco.alocate  # noqa: B018 the access is the test


def test_importing_disco_loads_no_heavy_library():
    heavy = ("numpy", "numba", "pyarrow", "duckdb", "torch", "scipy", "sqlalchemy")
    program = f"import sys, disco; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_public_functions_with_an_engine_use_this_machine_unless_told_and_no_others_do():
    public = [getattr(disco, name) for name in disco.__all__]
    spread = {f.__name__ for f in public if inspect.isfunction(f) and "engine" in inspect.signature(f).parameters}
    assert spread == set(disco._SPREAD)
    used = []

    class Watched(LocalEngine):
        def map(self, function, chunks):
            used.append(self.threads)
            return super().map(function, chunks)

    values = np.random.default_rng(1).random((20_000, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("disco.adapters.engines.LocalEngine", Watched)
        disco.allocate(values, [5000, 5000])
        assert set(used) == {LocalEngine().threads}
        used.clear()
        disco.allocate(values, [5000, 5000], engine=Watched(threads=1))
        assert set(used) == {1}


def test_public_functions_keep_their_help_and_can_be_pickled():
    assert pickle.loads(pickle.dumps(disco.allocate)) is disco.allocate
    assert disco.allocate.__doc__ == disco.allocation.allocate.__doc__
    assert inspect.signature(disco.allocate) == inspect.signature(disco.allocation.allocate)
