from fedspca.site import QUERIES, answers


def test_every_question_says_what_it_releases():
    assert all(question.releases for question in QUERIES.values())


def test_every_question_is_answered_by_the_function_of_its_name():
    """So that the list can be read beside the files of ``site/answers``."""
    for name, question in QUERIES.items():
        assert question.answer.__name__ == name
        assert question.answer.__module__.startswith(f"{answers.__name__}.")
