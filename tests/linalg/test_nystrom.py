import dataclasses

import numpy as np
import pytest

from fedspca.linalg import nystrom


@pytest.fixture
def model():
    """A model of a known S from four questions, the last of which repeats columns of the first."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((80, 60)) * np.linspace(3.0, 0.3, 60)
    s = a.T @ a
    asked = [np.linalg.qr(rng.standard_normal((60, 7)))[0]]
    asked += [np.linalg.qr(s @ asked[0])[0], np.linalg.qr(rng.standard_normal((60, 4)))[0]]
    asked.append(asked[0][:, :3])
    model = nystrom.empty(60, float(np.trace(s)))
    for columns in asked:
        model = nystrom.expand(model, columns, s @ columns)
    return s, np.hstack(asked), model


def test_the_model_agrees_with_s_on_all_that_was_asked_and_never_exceeds_it(model):
    s, asked, model = model
    assert np.allclose(model @ asked, s @ asked)
    assert np.linalg.eigvalsh(s - model @ np.eye(60)).min() > -1e-9 * np.linalg.norm(s, 2)
    assert model.rank == 18  # what was asked twice teaches nothing


def test_the_predictor_adds_the_missing_trace_where_nothing_was_asked(model):
    s, asked, model = model
    basis = np.linalg.svd(asked, full_matrices=False)[0][:, :18]
    known = s @ basis @ np.linalg.solve(basis.T @ s @ basis, basis.T @ s)
    tau = (np.trace(s) - np.trace(known)) / (60 - 18)
    expected = known + tau * (np.eye(60) - basis @ basis.T)
    whole = nystrom.predictor(model)
    assert np.allclose(whole @ np.eye(60) + whole.shift * np.eye(60), expected)
    rows = np.arange(3, 60, 4)
    part = nystrom.predictor(model, rows)
    assert np.allclose(part @ np.eye(15) + part.shift * np.eye(15), expected[np.ix_(rows, rows)])
    assert np.allclose(nystrom.majoriser(model, rows) @ np.eye(15), known[np.ix_(rows, rows)])


def test_the_leading_eigenvectors_are_those_of_the_model(model):
    _, _, model = model
    values, vectors = nystrom.leading(model, 3)
    assert np.allclose(values, np.linalg.eigvalsh(model @ np.eye(60))[::-1][:3])
    assert np.allclose(model @ vectors, vectors * values)


def spectrum(seed=0, d=40, values=None):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    values = np.r_[100.0, 50.0, 20.0, np.linspace(2.0, 0.5, d - 3)] if values is None else values
    return (q * values) @ q.T, q


def grown(s, questions):
    model = nystrom.empty(len(s), float(np.trace(s)))
    for columns in questions:
        model = nystrom.expand(model, columns, s @ columns)
    return model


def dense(model):
    return model @ np.eye(model.n_features)


def test_a_model_that_knows_nothing_is_nothing():
    model = nystrom.empty(5, 3.0)
    assert (model.n_features, model.rank, model.trace) == (5, 0, 3.0)
    assert not dense(model).any()
    values, vectors = nystrom.leading(model, 2)
    assert not values.any()
    assert np.allclose(vectors.T @ vectors, np.eye(2))
    assert nystrom.captured(model, 2) == 0.0


def test_its_parts_say_the_same():
    s, _ = spectrum()
    rng = np.random.default_rng(1)
    questions = [np.linalg.qr(rng.standard_normal((40, k)))[0] for k in (4, 3, 2)]
    model = grown(s, questions)
    factor, asked = np.hstack(model.factors), np.hstack(model.asked)
    assert [block.shape[1] for block in model.factors] == [4, 3, 2]
    assert np.allclose(model.gram, factor.T @ factor)
    assert np.allclose(factor @ factor.T, dense(model))
    assert np.array_equal(asked, np.hstack(questions))
    basis = asked @ model.whitening
    assert np.allclose(basis.T @ basis, np.eye(9), atol=1e-9)
    assert np.allclose(basis @ (basis.T @ asked), asked)
    assert model.trace == pytest.approx(np.trace(s))
    assert nystrom.captured(model, 2) == pytest.approx(np.linalg.eigvalsh(dense(model))[-2:].sum())


def test_rounding_errors_of_what_was_known_teach_nothing():
    """Without a tolerance on the rank, dividing by rounding errors would poison the factor."""
    rng = np.random.default_rng(2)
    s, _ = spectrum(values=np.r_[1e6, 1e5, 3.0, np.zeros(37)])  # rank 3
    first = np.linalg.qr(rng.standard_normal((40, 6)))[0]
    model = grown(s, [first])
    assert model.rank == 3
    for _ in range(5):
        mixed = np.linalg.qr(first @ rng.standard_normal((6, 3)) + 1e-9 * rng.standard_normal((40, 3)))[0]
        model = nystrom.expand(model, mixed, s @ mixed + 1e-9 * rng.standard_normal((40, 3)))
        assert model.rank == 3
        assert np.linalg.norm(dense(model) - s) < 1e-6 * np.linalg.norm(s)
    again = nystrom.expand(model, first, s @ first)
    assert again is model


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_the_tolerance_is_relative_to_what_is_known(size):
    s, q = spectrum(values=size * np.r_[1.0, 1e-6, 1e-14, np.zeros(37)])
    model = grown(s, [q[:, :1], q[:, 1:2], q[:, 2:3]])
    assert model.rank == 2
    loose = nystrom.expand(grown(s, [q[:, :1]]), q[:, 1:2], s @ q[:, 1:2], rtol=1e-3)
    assert loose.rank == 1


def test_a_negative_answer_sets_the_scale_as_a_positive_one_does():
    """The scale is the largest entry of the answer, in size: of two that differ in sign both or none is kept."""
    columns = np.eye(6)[:, :1]
    answer = np.zeros((6, 1))
    answer[0], answer[1] = 1e-8, -1e6
    for sign in (1.0, -1.0):
        answer[1] *= sign
        assert nystrom.expand(nystrom.empty(6, 1.0), columns, answer).rank == 0


def test_once_nearly_all_is_explained_the_predictor_is_the_model_and_forgets_its_questions():
    s, q = spectrum(values=np.r_[100.0, 50.0, 20.0, np.full(37, 1e-3)])
    young = grown(s, [q[:, :1]])
    assert len(young.asked) == 1
    assert nystrom.predictor(young).shift > 0
    old = nystrom.expand(young, q[:, 1:4], s @ q[:, 1:4])
    assert old.asked == ()
    assert np.allclose(nystrom.predictor(old) @ np.eye(40), nystrom.majoriser(old) @ np.eye(40))
    older = nystrom.expand(old, q[:, 4:6], s @ q[:, 4:6])
    assert older.asked == ()
    assert older.rank == 6


def test_the_missing_trace_is_spread_over_what_was_never_asked():
    s, q = spectrum()
    model = grown(s, [q[:, :3]])
    tau = (np.trace(s) - 170.0) / 37
    found = nystrom.predictor(model)
    expected = dense(model) + tau * (np.eye(40) - q[:, :3] @ q[:, :3].T)
    assert np.allclose(found @ np.eye(40) + found.shift * np.eye(40), expected)
    everything = grown(s, [q[:, :20], q[:, 20:]])
    assert np.allclose(nystrom.predictor(everything) @ np.eye(40), s)


def test_a_trace_below_what_is_known_predicts_nothing_negative():
    s, q = spectrum()
    model = nystrom.expand(nystrom.empty(40, 1.0), q[:, :2], s @ q[:, :2])
    assert np.linalg.eigvalsh(nystrom.predictor(model) @ np.eye(40)).min() > -1e-9


def test_leading_eigenvectors_are_completed_where_the_rank_is_too_low():
    s, q = spectrum(values=np.r_[9.0, 4.0, np.zeros(38)])
    model = grown(s, [q[:, :2]])
    values, vectors = nystrom.leading(model, 4)
    assert values == pytest.approx([9.0, 4.0, 0.0, 0.0])
    assert np.allclose(vectors.T @ vectors, np.eye(4))
    assert np.allclose(np.abs(vectors[:, :2].T @ q[:, :2]), np.eye(2))
    assert nystrom.leading(model, 4) is nystrom.leading(model, 4)
    values, vectors = nystrom.leading(model, 1)
    assert vectors.shape == (40, 1)


def test_a_direction_of_rounding_size_is_not_an_eigenvector():
    factor = np.eye(6)[:, :2] * [1.0, 1e-7]
    model = nystrom.NystromModel((factor,), factor.T @ factor, (), np.zeros((0, 0)), 1.0)
    values, vectors = nystrom.leading(model, 2)
    assert values.tolist() == [1.0, 0.0]
    assert np.allclose(vectors.T @ vectors, np.eye(2))


def test_a_basis_is_completed_by_the_coordinates_that_it_covers_least():
    basis = np.zeros((5, 2))
    basis[[0, 1], 0], basis[3, 1] = [0.6, 0.8], 1.0
    found = nystrom.complete(basis, 4)
    assert np.allclose(np.abs(found[:, :2]), np.abs(basis))
    assert np.allclose(found.T @ found, np.eye(4))
    assert sorted(np.flatnonzero(np.abs(found[:, 2:]).sum(axis=1) > 1e-9)) == [2, 4]
    assert nystrom.complete(basis, 2) is basis
    assert nystrom.complete(basis, 1) is basis


@pytest.mark.parametrize("shift", [0.0, 1e-9, 1e-5, 0.1])
def test_a_column_near_the_span_of_the_others_still_gives_an_orthonormal_basis(shift):
    s, q = spectrum()
    first = q[:, 5:9]
    near = np.linalg.qr(first[:, :2] + shift * q[:, 20:22])[0]
    model = nystrom.expand(grown(s, [first]), near, s @ near)
    if len(model.asked) < 2:
        return
    basis = np.hstack(model.asked) @ model.whitening
    assert basis.shape[1] == (4 if shift < 1e-6 else 6)
    assert np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-4)


def test_rows_of_a_model_are_taken_only_where_some_are_left_out():
    s, q = spectrum()
    model = grown(s, [q[:, :3]])
    everything = nystrom.majoriser(model, np.arange(40))
    assert np.allclose(everything @ np.eye(40), dense(model))
    some = np.array([3, 1, 30])
    assert np.allclose(nystrom.majoriser(model, some) @ np.eye(3), dense(model)[np.ix_(some, some)])


@pytest.mark.parametrize("r", [1, 2, 3, 9])
def test_leading_eigenvectors_are_orthonormal(r):
    s, _ = spectrum()
    model = grown(s, [np.linalg.qr(np.random.default_rng(1).standard_normal((40, 8)))[0]])
    values, vectors = nystrom.leading(model, r)
    assert len(values) == r
    assert np.allclose(vectors.T @ vectors, np.eye(r), atol=1e-9)


@pytest.mark.parametrize("size", [1e-20, 1e20])
def test_leading_eigenvectors_are_found_at_any_scale(size):
    s, q = spectrum()
    model = grown(size * s, [q[:, :3]])
    values, vectors = nystrom.leading(model, 3)
    assert values == pytest.approx(size * np.array([100.0, 50.0, 20.0]), rel=1e-9, abs=0.0)
    assert np.allclose(np.abs(vectors.T @ q[:, :3]), np.eye(3), atol=1e-6)


def test_a_model_with_no_unexplained_trace_predicts_what_it_knows():
    s, q = spectrum(d=6, values=np.r_[3.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    model = grown(s, [q[:, :5]])
    assert nystrom.predictor(model).shift == pytest.approx(1.0)  # one direction is left, and all of the trace with it
    everything = nystrom.NystromModel((np.eye(6),), np.eye(6), (np.eye(6),), np.eye(6), 99.0)
    assert nystrom.predictor(everything).shift == 0.0
    exact = nystrom.NystromModel((np.eye(6)[:, :2],), np.eye(2), (np.eye(6)[:, :2],), np.eye(2), 2.0)
    assert nystrom.predictor(exact).shift == 0.0
    asked = (np.eye(6)[:, :2],)
    for left, shift in (
        (400.0, 0.0),
        (4000.0, 0.0),
        (4400.0, 1100.0),
    ):  # below a thousandth it is neglected
        model = nystrom.NystromModel((1e3 * asked[0],), 1e6 * np.eye(2), asked, np.eye(2), 2e6 + left)
        assert nystrom.predictor(model).shift == pytest.approx(shift)


def test_a_model_says_when_it_is_all_of_s():
    s, q = spectrum()
    assert not nystrom.known(grown(s, [q[:, :20]]))
    assert nystrom.known(grown(1e6 * s, [q[:, :20], q[:, 20:]]))
    assert nystrom.known(nystrom.empty(3, 0.0))
    for share, whole in ((0.5e-10, True), (1.5e-10, False)):  # of the trace, which rounding may leave unexplained
        assert nystrom.known(nystrom.NystromModel((np.eye(3),), np.eye(3), (), np.eye(3), 3.0 * (1 + share))) == whole


def test_what_it_explains_of_each_feature_and_what_dense_pca_captures_at_most():
    s, _ = spectrum()
    rng = np.random.default_rng(1)
    model = grown(s, [np.linalg.qr(rng.standard_normal((40, k)))[0] for k in (4, 3)])
    known = dense(model)
    assert np.allclose(nystrom.diagonal(model), np.diag(known))
    trace = float(np.trace(s))
    largest = np.linalg.eigvalsh(known)[-2:].sum()
    bound = nystrom.at_most(model, 2, trace)
    assert bound >= np.linalg.eigvalsh(s)[-2:].sum()
    assert bound == pytest.approx(min(largest + trace - np.trace(known), trace) * (1 + 1e-12), rel=3e-13)
    whole = grown(s, [np.eye(40)])
    assert nystrom.at_most(whole, 2, trace) == pytest.approx(150.0)
    assert nystrom.at_most(whole, 2, 99.0) == pytest.approx(99.0)  # never more than all there is


def test_where_each_tolerance_lies():
    """Each is the least that rounding asks for; twice as much would lose directions that are known."""
    for value, rank in ((0.7e-11, 1), (1.5e-11, 2)):
        s = np.diag([1.0, value, 0.0])
        assert grown(s, [np.eye(3)[:, :1], np.eye(3)[:, 1:2]]).rank == rank
    for value, kept in ((0.7e-12, 0.0), (1.5e-12, 1.5e-12)):
        factor = np.eye(3)[:, :2] * np.sqrt([1.0, value])
        model = nystrom.NystromModel((factor,), factor.T @ factor, (), np.zeros((0, 0)), 1.0)
        assert nystrom.leading(model, 2)[0][1] == pytest.approx(kept)
    for sine, columns in ((0.7e-12, 1), (1.5e-12, 2)):
        assert nystrom._whitened(np.eye(1), np.array([[np.sqrt(1.0 - sine)]])).shape == (2, columns)


def test_an_answer_of_nothing_teaches_nothing():
    model = nystrom.empty(4, 1.0)
    assert nystrom.expand(model, np.eye(4)[:, :2], np.zeros((4, 2))) is model


def test_questions_are_forgotten_as_soon_as_what_is_missing_is_negligible():
    for left, asked in ((3000.0, 0), (3003.0, 1)):  # a thousandth of the largest, in each of three directions
        column = np.eye(3)[:, :1]
        assert len(nystrom.expand(nystrom.empty(3, 1e6 + left), column, 1e6 * column).asked) == asked


def test_models_are_told_apart_by_what_they_know_and_not_by_what_was_asked_of_them():
    s, q = spectrum()
    model = grown(s, [q[:, :2]])
    nystrom.leading(model, 1)
    assert "_leading" not in repr(model)
    assert nystrom.empty(4, 1.0).gram.shape == (0, 0)
    fields = {field.name: field for field in dataclasses.fields(model)}["_leading"]
    assert not fields.compare
    assert not fields.init
    assert dataclasses.replace(model, trace=3.0)._leading == {}  # another model's eigenvectors are not its own
