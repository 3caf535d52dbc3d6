"""What can go wrong at a site. Each error names the site, so that a coordinator knows whom to call."""


class InvalidData(ValueError):
    """Rows that cannot be used: the message names the site, the column and what to do."""


class SiteError(RuntimeError):
    """A question that a site did not answer.

    Attributes
    ----------
    site : str
        Who did not answer.
    query : str
        The name of the question.
    reason : str
        Why, in words.
    """

    def __init__(self, site: str, query: str, reason: str) -> None:
        super().__init__(site, query, reason)
        self.site = site
        self.query = query
        self.reason = reason

    def __str__(self) -> str:
        return f"Site {self.site!r} did not answer {self.query!r}: {self.reason}"


class SiteRefusal(SiteError):
    """The site's policy does not allow the question."""


class InvalidQuery(SiteError):
    """The question is malformed, or does not fit what the site was asked before."""


def count(number: float, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
