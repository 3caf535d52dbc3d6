from fedspca.experiments.records import select


def test_pca_is_within_a_fifth_of_the_printed_error_for_every_seed(numbers):
    errors = [record["error"] for record in select(numbers["iid-wdbc"]["records"], what="pca")]
    assert len(errors) >= 10
    assert max(abs(error - 677.31) for error in errors) < 0.2


def test_exact_spca_has_less_error_and_fewer_non_zeros_than_the_papers_rows(numbers):
    rows = select(numbers["iid-wdbc"]["records"], what="table", row="ExactSPCA, 100 non-zeros each")
    assert {row["n_sites"] for row in rows} == {1, 3, 5, 10}
    assert max(row["error"] for row in rows) <= 678.3
    assert max(row["nonzeros"] for row in rows) <= 400
