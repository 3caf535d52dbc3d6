"""The study that runs beside: one question at a time, and a question that is not the next one is told apart."""

import gc
import re
import threading
import time

import numpy as np
import pytest

from fedspca.door.replay import TOLERANCE, Replay, Replays, Summed, difference
from fedspca.site.question import Query


def counting(ask):
    """A work that asks three questions, each with the sum of the last."""
    value = 0.0
    for number in range(3):
        value = float(ask(Query("q", {"x": np.array([value])}, {"number": number})).arrays["x"][0])
    return value


def summed(value):
    return Summed({"x": np.array([value])}, ("a", "b"))


def until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_questions_are_handed_out_one_by_one():
    replay = Replay(counting)
    for number in range(3):
        query = replay.question()
        assert query.scalars["number"] == number
        assert replay.question() is query  # as often as one asks
        replay.feed(summed(number + 10.0))
    assert replay.question() is None
    assert replay.result() == 12.0
    assert replay.fed == 3
    with pytest.raises(ValueError, match="no question any more"):
        replay.feed(summed(0.0))


def test_an_error_of_the_work_is_raised_where_its_question_is_asked_for():
    def failing(ask):
        ask(Query("q"))
        raise ArithmeticError("no variance")

    replay = Replay(failing)
    replay.feed(summed(1.0))
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="no variance"):
            replay.question()


def test_there_is_no_result_before_the_end():
    replay = Replay(counting)
    with pytest.raises(ValueError, match="has not ended"):
        replay.result()


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_the_thread_ends_with_the_replay(how):
    inside = []

    def work(ask):
        inside.append(threading.current_thread())
        return counting(ask)

    replay = Replay(work)
    replay.question()
    assert inside[0].is_alive()
    if how == "closed":
        replay.close()
    del replay
    gc.collect()
    assert until(lambda: not inside[0].is_alive())


class Terms:
    def __init__(self, name):
        self.hash = name


def test_a_replay_is_fed_with_what_it_has_not_seen_and_begun_anew_after_a_restart():
    loaded = []

    def load(number):
        loaded.append(number)
        return summed(float(number))

    replays = Replays(lambda agreement: counting)
    first = replays.at(Terms("s"), "run", [], load)
    assert first.question().scalars["number"] == 0
    assert replays.at(Terms("s"), "run", [1], load) is first
    assert replays.at(Terms("s"), "run", [1, 4], load) is first
    assert (loaded, first.fed) == ([1, 4], 2)
    assert first.question().arrays["x"][0] == 4.0
    anew = Replays(lambda agreement: counting).at(Terms("s"), "run", [1, 4], load)
    assert anew.question().arrays["x"][0] == 4.0
    assert replays.at(Terms("s"), "another run", [], load) is not first
    assert replays.at(Terms("another"), "run", [], load).question().scalars["number"] == 0


def ask(**changed):
    arrays = {"mean": np.array([1.0, 1e-9, 0.0]), "directions": np.array([[1.0, 0.0], [0.0, 1e-3], [1e-20, 0.0]])}
    scalars = {"precision": "float64", "seed": 7, "rho": 2.0}
    name = changed.pop("name", "gram_product")
    for key, value in changed.items():
        (arrays if isinstance(value, np.ndarray) else scalars)[key] = value
    return Query(name, arrays, scalars)


@pytest.mark.parametrize(
    "changed",
    [
        {"rho": 2.0 + TOLERANCE},
        {"directions": np.array([[1.0, 0.0], [1e-7, 1e-3], [0.0, 9e-10]])},
        {"mean": np.array([1.0 + 1e-9, 1e-9 * (1 + 1e-9), 0.0])},
    ],
)
def test_rounding_is_no_difference(changed):
    assert difference(ask(), ask(**changed)) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": "row_errors"}, "asks 'row_errors' where the study asks 'gram_product'"),
        ({"seed": 8}, "seed is 8 where the study has 7"),
        ({"seed": 7.0}, "seed is 7.0"),
        ({"precision": "float32"}, "precision is 'float32'"),
        ({"rho": 2.001}, "rho is 2.001"),
        ({"rho": float("nan")}, "rho is nan"),
        ({"more": 1}, "other numbers"),
        ({"removed": np.zeros((3, 1))}, "other numbers"),
        ({"directions": np.zeros((3, 1))}, r"shape \(3, 1\) where the study has \(3, 2\)"),
        ({"directions": np.array([[1.0, 0.0], [1e-4, 1e-3], [0.0, 0.0]])}, "by 1.0e-04"),
        ({"directions": np.array([[1.0, 1e-6], [0.0, 1e-3], [0.0, 0.0]])}, "by 1.0e-03"),  # a column in its own units
        ({"directions": np.array([[1.0, 0.0], [0.0, np.nan], [0.0, 0.0]])}, "differs"),
        ({"mean": np.array([1.0, 2e-9, 0.0])}, "by 1.0e"),  # an entry in its own units
        ({"mean": np.array([1.0, 1e-9, 1e-30])}, "by inf"),
    ],
)  # fmt: skip
def test_whatever_else_differs_is_told(changed, words):
    assert re.search(words, difference(ask(), ask(**changed)))


def test_errors_are_about_a_span_so_the_sign_of_a_direction_is_none_of_their_business():
    turned = {"directions": np.array([[-1.0, 0.0], [0.0, 1e-3], [-1e-20, 0.0]])}
    assert difference(ask(name="row_errors"), ask(name="row_errors", **turned)) is None
    assert "by 2.0e+00" in difference(ask(), ask(**turned))  # where the sum turns with it, it is


def test_an_infinite_scale_is_the_same_infinity():
    own = Query("q", {"scale": np.array([1.0, np.inf])})
    assert difference(own, Query("q", {"scale": np.array([1.0 + 1e-12, np.inf])})) is None
    assert difference(own, Query("q", {"scale": np.array([np.inf, np.inf])})) is not None
    assert difference(own, Query("q", {"scale": np.array([1.0, 5.0])})) is not None
