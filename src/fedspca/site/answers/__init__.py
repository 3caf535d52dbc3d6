"""How a site answers: pure functions of its rows, grouped by what they are about. The list is in site/queries.py."""
