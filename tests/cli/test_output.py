from fedspca.cli.output import cells, print_table, sentence, table


def test_a_table_is_printed_whole_however_narrow_the_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    keys = table(("site", "left"), ("key", "left"))
    keys.add_row(*cells("north", "825d 56fc 9839 d61f ff25 b3f3 79b2 bd93 5694 c8a7"))
    print_table(keys)
    assert capsys.readouterr().out.splitlines()[1] == "north  825d 56fc 9839 d61f ff25 b3f3 79b2 bd93 5694 c8a7"


def test_a_sentence_begins_with_a_capital_and_a_name_stays_as_it_is():
    assert sentence("left out: two columns") == "Left out: two columns."
    assert sentence("a.csv: read with decimal commas (--decimal)") == "a.csv: read with decimal commas (--decimal)"
