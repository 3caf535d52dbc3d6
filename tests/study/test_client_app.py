"""The ClientApp, called as Flower calls it."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from fedspca.study import client_app


def test_what_is_no_letter_is_refused():
    with pytest.raises(TypeError, match="A letter is bytes"):
        client_app.answer(SimpleNamespace(content={"letter": {"bytes": "text"}}), None)
