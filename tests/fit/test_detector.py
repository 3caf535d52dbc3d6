import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from fedspca import AnomalyDetector, LocalFederation, Site


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks():
    check_estimator(AnomalyDetector(level=0.9))


def test_the_number_of_sites_does_not_matter(rows):
    one, many = AnomalyDetector(passes=2), AnomalyDetector(passes=2)
    one.fit(rows)
    many.fit(rows, sites=np.arange(60) % 10)
    assert np.allclose(one.score_samples(rows), many.score_samples(rows), rtol=1e-6)
    assert one.n_kept_ == many.n_kept_


def test_the_contract_of_outlier_detectors(rows):
    detector = clone(AnomalyDetector(level=0.9)).fit(rows)
    assert np.allclose(detector.decision_function(rows), detector.score_samples(rows) - detector.offset_)
    assert set(detector.predict(rows)) <= {-1, 1}
    assert detector.contributions(rows).shape == rows.shape
    assert len(detector.blamed(rows[:2], top=3)[0]) == 3
    sites = LocalFederation([Site("a", rows[:30]), Site("b", rows[30:])])
    assert AnomalyDetector().fit_federation(sites).score_samples(rows).shape == (60,)


def test_bad_input_is_named(rows):
    with pytest.raises(ValueError, match="owner of each of the 60 rows"):
        AnomalyDetector().fit(rows, sites=["a"])
    with pytest.raises(ValueError, match="level"):
        AnomalyDetector(level=1.5).fit(rows)
    with pytest.raises(ValueError, match="NaN"):
        AnomalyDetector().fit(np.where(rows > 9, np.nan, rows))
