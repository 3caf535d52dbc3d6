"""What Python hands over is what C takes: a wrong type or order would not raise, but read other memory."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.compiled import blas, columns, factors, fewest, proximal, soft_power, splitting, stiefel
from fedspca.linalg.compiled.library import Doubles, Integers, Singles, library
from fedspca.linalg.quadratic import DenseQuadratic, Quadratic

FOLDER = Path(columns.__file__).parent
FOR_TESTS = {"interface", "eigenpairs", "refit_beside", "refitted"}  # no wrapper calls these
RENAMED = {"few_nonzeros": "short"}  # a word of C

NUMBERS = ("double", "int64_t", "float")
KINDS = {
    ctypes.c_int64: "int64_t",
    ctypes.c_double: "double",
    Doubles: "double *",
    Integers: "int64_t *",
    Singles: "float *",
    ctypes.POINTER(ctypes.c_double): "double *",
    fewest._ASK: "int64_t *",  # a pointer to a function that returns one
}

pytestmark = pytest.mark.skipif(library() is None, reason="nothing was compiled here")


def without_comments(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def kind(parameter):
    """The type of a parameter in C."""
    words = re.sub(r"\bconst\b", "", parameter).split()
    return f"{words[0]} *" if "*" in parameter and words[0] in NUMBERS else "address" if "*" in parameter else words[0]


def prototypes():
    """The kinds of the parameters of each function that is exported, by its name."""
    found = {}
    for path in sorted(FOLDER.glob("*.c")):
        for name, inside in re.findall(
            r"^EXPORT int64_t fedspca_(\w+)\((.*?)\) \{", without_comments(path), re.S | re.M
        ):
            each = re.split(r",(?![^()]*\))", inside)
            found[name] = [] if inside == "void" else [kind(parameter) for parameter in each]
    return found


def handed_over(kernels):
    """The same as the wrappers declare it, with what is returned."""
    found = {}
    for wrapper in (columns, fewest, stiefel, splitting):
        for name, call in wrapper._functions(kernels)._asdict().items():
            found[name] = call.argtypes, call.restype
    for name, wrapper in {"minimise": proximal, "soft_power": soft_power}.items():
        call = wrapper._function(kernels)
        found[name] = call.argtypes, call.restype
    return found


def test_the_arguments_of_every_function_have_the_types_of_its_prototype():
    in_c = prototypes()
    assert set(in_c) > FOR_TESTS
    declared = handed_over(library())
    assert set(declared) == set(in_c) - FOR_TESTS
    for name, (types, returned) in declared.items():
        assert [KINDS.get(each, "address") for each in types] == in_c[name], name
        assert returned is ctypes.c_int64, name


def fields(header, name):
    """The names of the fields of a struct, in order."""
    inside = re.search(rf"typedef struct \{{([^}}]*)\}} {name};", without_comments(FOLDER / header)).group(1)
    pointers = re.findall(r"\(\*(\w+)\)", inside)
    return pointers or [
        each.split()[-1].strip("* ") for line in inside.split(";") for each in line.split(",") if each.strip()
    ]


def test_the_numbers_of_a_tuning_are_in_the_order_of_the_struct():
    names = [RENAMED.get(name, name) for name in fields("columns.h", "Effort")]
    order = {name: 1000 + at for at, name in enumerate(names)}
    assert names[-1] == "near"  # it is handed over by itself
    assert columns._numbers(Tuning(**{**order, "handovers": order["handovers"]})) == tuple(order.values())[:-1]


def test_the_order_in_which_c_reads_the_numbers_is_that_of_the_struct():
    inside = re.search(r"fields\[\] = \{([^}]*)\}", without_comments(FOLDER / "columns_joint.c")).group(1)
    assert re.findall(r"&effort\.(\w+)", inside) == fields("columns.h", "Effort")[:-1]


def test_a_quadratic_has_the_fields_of_the_struct():
    assert [name for name, _ in blas._Quadratic._fields_] == fields("blas.h", "quadratic_t")


def test_the_table_of_lapack_has_the_order_of_the_struct():
    assert [name for _, name, _ in factors._WANTED] == fields("factors.h", "Lapack")


def test_the_table_of_the_package_names_every_file():
    told = (FOLDER / "__init__.py").read_text(encoding="utf-8")
    for path in [*FOLDER.glob("*.c"), *FOLDER.glob("*.h")]:
        assert f"``{path.name}``" in told or f"``{path.stem}.*``" in told, path.name


EYE, W = np.eye(4), np.eye(4, 2)
HOW = stiefel.Effort(1e-6, 3, False, 1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda kernels: fewest.fewest(kernels, np.eye(3), 1.0, [W], None),
        lambda kernels: fewest.refit(kernels, np.eye(5), W, rough=True),
        lambda kernels: fewest.partition(kernels, np.eye(3), W),
        lambda kernels: stiefel.retract(kernels, W, np.ones((4, 1)), 1e-10, 9),
        lambda kernels: stiefel.polish(kernels, EYE, np.ones((3, 2)), None, W, W, 0.0, HOW),
        lambda kernels: stiefel.polish(kernels, EYE, None, np.ones(1), W, W, 0.0, HOW),
        lambda kernels: columns.lowest(np.eye(65), np.eye(65), True),
        lambda kernels: columns.swept(EYE, np.full((4, 2), 0.5), 1.0, (2, 2), False, Tuning()),
        lambda kernels: columns.searched(np.eye(70), (1,) * 65, True, Tuning(), []),
        lambda kernels: blas.Handed(Quadratic(np.ones((4, 3)), np.ones(2), 0.0)),
        lambda kernels: soft_power.soft_power(
            kernels, DenseQuadratic(EYE), np.ones(1), np.arange(4), np.zeros((1, 4, 0)), steps=1, starts=np.ones((3, 1))
        ),
    ],
)
def test_shapes_that_do_not_suit_each_other_are_refused(call):
    with pytest.raises(ValueError, match=r"shape|suit|need|columns|signs|starts|features"):
        call(library())
