from dataclasses import replace

from fedspca.model.words import certainty_in_words, feature_certainty


def test_a_model_says_what_was_taken_out_before_the_fit(oblique):
    adjusted = {"preparation": {"adjust": ["age", "bmi"]}, "covariate_variance": {"all": 0.3, "age": 0.2, "bmi": 0.05}}
    assert replace(oblique, facts=adjusted).adjusted() == [
        (
            "Taken out of the features: age, bmi. Together they explain 30.0% of the variance; "
            "each beyond the others: age 20.0%, bmi 5.0%."
        )
    ]
    own = {"centre": "site", "scale_by": "site", "weight": "w", "site_weight": "equal"}
    shares = {"before": 0.25, "after": 0.125}
    assert replace(oblique, facts={"preparation": own, "between_sites": shares}).adjusted() == [
        "Each site's rows were seen about its own mean, divided by its own spread.",
        "Rows counted as often as their weights say.",
        "Every site counted alike, however many rows it has.",
        "25.0% of the variance lay between the sites' means before, and 12.5% after.",
    ]
    assert replace(oblique, facts={"preparation": {"centre": "site"}}).adjusted() == [
        "Each site's rows were seen about its own mean."
    ]
    assert replace(oblique, facts={"between_sites": shares}).adjusted() == [
        "25.0% of the variance lay between the sites' means."
    ]
    some = {"preparation": {"adjust": ["age", "bmi"]}, "covariate_variance": {"all": 0.3, "age": 0.2}}
    assert replace(oblique, facts=some).adjusted()[0].endswith("each beyond the others: age 20.0%.")


def test_what_half_samples_say_is_told_in_words(oblique):
    """Features a, b and c have no weight in the first component; d, e and f have one."""
    frequencies = {0: 0.2, 1: 0.4, 2: 0.3, 3: 0.95, 4: 0.9, 5: 0.5}
    features = [{"feature": j, "frequency": share, "stable": share >= 0.9} for j, share in frequencies.items()]
    stand_ins = [[3, 1, 0.876], [4, 2, -0.7], [5, 0, 0.6], [5, 1, 0.5]]
    about = {"features": features, "threshold": 0.9, "false_selections": 0.125, "stand_ins": stand_ins}
    empty = {"features": features[3:], "threshold": 0.9, "false_selections": 0.125, "stand_ins": []}
    model = replace(oblique, facts={"certainty": {"components": [about, empty, empty]}})
    first = [
        "2 features are stable: at least 90% of the half samples select them.",
        "At most 0.12 of these would be expected by chance alone.",
    ]
    assert certainty_in_words(model, 0) == [
        *first,
        "Not selected, but in some half samples: b (40%), c (30%), a (20%).",
        "b stands in for d in some half samples (correlation 0.88).",
        "c stands in for e in some half samples (correlation -0.70).",
        "a stands in for f in some half samples (correlation 0.60).",
    ]
    assert certainty_in_words(model, 0, most=1)[2:] == [
        "Not selected, but in some half samples: b (40%).",
        "b stands in for d in some half samples (correlation 0.88).",
    ]
    assert certainty_in_words(model, 1) == first  # nothing missed, nothing that stands in
    assert feature_certainty(model, 0)[3] == features[3]
    unsure = {**empty, "features": [{"feature": 3, "frequency": 0.6, "stable": False}], "false_selections": 1.5}
    assert certainty_in_words(replace(oblique, facts={"certainty": {"components": [unsure]}}), 0) == [
        "No feature is stable: none is selected in at least 90% of the half samples."
    ]
    assert certainty_in_words(oblique, 0) == []
    assert feature_certainty(oblique, 0) == {}
