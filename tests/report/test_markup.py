from fedspca.report.markup import Markup, join, tag, with_code


def test_text_is_escaped_wherever_it_stands():
    assert tag("p", "<b>", title='"<') == '<p title="&quot;&lt;">&lt;b&gt;</p>'
    assert join(Markup("<b>"), "<b>", None, ["&"]) == "<b>&lt;b&gt;&amp;"


def test_options_and_commands_are_code():
    told = with_code("Try --nonzero 12 <now>, then fedspca site status says more.")
    assert told == "Try <code>--nonzero 12</code> &lt;now&gt;, then <code>fedspca site status</code> says more."
