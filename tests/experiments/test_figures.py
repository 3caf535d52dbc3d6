from fedspca.experiments.figures import draw


def test_figures_have_the_same_bytes_each_time(numbers):
    records = numbers["smoothing"]["records"]
    assert draw("smoothing", records) == draw("smoothing", records)
