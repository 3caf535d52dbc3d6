from fedspca.masking.messages import PROTOCOL_ARRAYS
from fedspca.site import QUERIES, answers
from fedspca.site.queries import MAPS


def test_every_question_says_what_it_releases():
    assert all(question.releases for question in QUERIES.values())


def test_every_question_is_answered_by_the_function_of_its_name():
    """So that the list can be read beside the files of ``site/answers``."""
    for name, question in QUERIES.items():
        assert question.answer.__name__ == name
        assert question.answer.__module__.startswith(f"{answers.__name__}.")


def test_no_array_of_a_question_is_called_as_one_of_the_masks_own():
    asked = {name for known in QUERIES.values() for name in known.arrays}
    assert not (asked | set(MAPS)) & PROTOCOL_ARRAYS  # it would be lost on its way to a masked site
