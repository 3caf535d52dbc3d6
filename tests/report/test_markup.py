from fedspca.report.markup import Markup, join, tag


def test_text_is_escaped_wherever_it_stands():
    assert tag("p", "<b>", title='"<') == '<p title="&quot;&lt;">&lt;b&gt;</p>'
    assert join(Markup("<b>"), "<b>", None, ["&"]) == "<b>&lt;b&gt;&amp;"
