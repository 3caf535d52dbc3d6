"""A listener hears what a long computation does, and only while it listens."""

from fedspca import ExactSPCA
from fedspca.solvers.doing import counted, told_to
from helpers.study_files import make_rows


def test_items_are_counted_for_a_listener():
    told = []
    assert list(counted("Alone", "ab")) == ["a", "b"]
    with told_to(told.append):
        assert list(counted("Heard", "ab")) == ["a", "b"]
    list(counted("Too late", "ab"))
    assert told == ["Heard: 1 of 2", "Heard: 2 of 2"]


def test_a_fit_tells_what_takes_its_time():
    told = []
    with told_to(told.append):
        ExactSPCA(2, n_nonzero="auto", folds=4, scale=True).fit(make_rows(60))
        ExactSPCA(2, scale=True).path(make_rows(60), n_nonzero=[1, 2, 4])
    steps = [each.rpartition(":")[0] for each in told]
    assert list(dict.fromkeys(steps)) == [
        "Trying numbers of non-zeros, by fold",
        "Trying numbers of non-zeros, by half sample",
        "Fitting half samples",
        "Comparing half samples",
        "Scoring rows that are left out, by fold",
        "Fitting the path of sparsities",
    ]
