"""An owner's page: what the study asks, who takes part, what will leave, the decision, and what has left."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from fedspca.door.agreement import Agreement, objections, owners_objections, roster_phrase
from fedspca.letters.audit import BrokenLog
from fedspca.report.markup import Markup, join, tag, void
from fedspca.study.earlier import told_together
from fedspca.study.guard import standing
from fedspca.study.log_words import released, with_figures
from fedspca.study.owner import SiteFolder
from fedspca.study.words import WHY_THE_PHRASE, in_sections

SHOWN = 100  # lines of the log
NOT_APPROVED = "You have not approved this study. The site answers none of its questions. To refuse, leave it so."
WITHDRAWN = "Withdrawn. This site answers no study now. What has left before cannot be called back."
OTHER = (
    "The site still answers another version of this study, or another study, that you approved earlier: {name}, hash "
    "{hash}. If it must not, withdraw."
)


class OwnerPage:
    """What an owner sees and decides.

    Parameters
    ----------
    folder : SiteFolder
        The owner's folder.
    """

    def __init__(self, folder: SiteFolder) -> None:
        self._folder = folder
        self._rows = folder.open_site().n_rows
        self._found: tuple[str, list[str]] | None = None
        self._log: tuple[int, list[dict[str, Any]], str] = (-1, [], "")
        self.title = f"Site {folder.invitation.site}: study {folder.invitation.study}"

    def parts(self) -> Mapping[str, str]:
        """Return the parts of the page as they now are."""
        proposed = self._folder.proposed()
        agreement = proposed[-1] if proposed else None
        lines, chain = self._lines()
        return {
            "standing": self._standing(),
            "study": _study(agreement, self._folder.invitation.site),
            "decision": "" if agreement is None else self._decision(agreement),
            "released": _released(lines),
            "ledger": self._ledger(),
            "log": _log(lines, chain),
        }

    def act(self, action: str, given: Mapping[str, str]) -> str:
        """Approve the study that was shown, or take approvals back."""
        if action == "withdraw":  # all of them: a coordinator may put an earlier version back, and ask that
            for approved in self._folder.approvals():
                self._folder.store.withdraw(approved)
            return WITHDRAWN
        if action != "approve":
            raise ValueError(f"There is no action {action!r}.")
        agreement = self._folder.latest()
        self._check(agreement, given)
        self._folder.store.approve(agreement)
        return "Approved. The coordinator may now start the study."

    def document(self, name: str) -> str:
        """Raise a KeyError: this page has no documents."""
        raise KeyError(name)

    def _check(self, agreement: Agreement, given: Mapping[str, str]) -> None:
        if given.get("hash") != agreement.hash:
            raise ValueError("Another study was proposed since you began to read. Read the page again.")
        if given.get("read") != "yes":
            raise ValueError("Tick the box first: you have read what will leave this machine.")
        if "".join(given.get("phrase", "").lower().split()) != roster_phrase(agreement).replace(" ", ""):
            raise ValueError(
                "This is not the roster phrase of this page. If another owner reads you another phrase, you were not "
                "shown the same sites and terms: do not approve, and ask the coordinator why."
            )
        if found := owners_objections(agreement, self._rows):
            raise ValueError(f"{found[0]}, so their covariance would tell the rows themselves.")
        if given.get("even_so") != "yes" and (found := self._together(agreement)):
            raise ValueError(f"Together with an earlier study it tells more: {found[0]}.")

    def _together(self, agreement: Agreement) -> list[str]:
        """Return what the study would reveal together with earlier ones; the rows are read once for each agreement."""
        if self._found is None or self._found[0] != agreement.hash:
            site = self._folder.open_site(agreement)
            self._found = (agreement.hash, told_together(agreement, self._folder.store, site))
        return self._found[1]

    def _standing(self) -> Markup:
        how = standing(self._folder)
        if how.pid is None:
            return tag("p", "Not connected: the site does not run. Start it with: fedspca site join", class_="warn")
        return tag("p", how.trouble or how.told.capitalize(), class_="good" if how.connected else "bad")

    def _decision(self, agreement: Agreement) -> Markup:
        approvals = {study.hash: study.study for study in self._folder.approvals()}
        found = objections(agreement, self._folder.policy, rows=self._rows, features=agreement.features)
        found += owners_objections(agreement, self._rows)
        together = self._together(agreement)
        against = [tag("p", f"What speaks against it: {one}.", class_="bad") for one in found + together]
        if approvals.pop(agreement.hash, None) is not None:
            said = tag("p", "You have approved this study. The site answers its questions.", class_="good")
            form = _withdrawal()
        else:
            said = tag("p", NOT_APPROVED, class_="warn")
            form = join(_form(agreement, even_so=bool(together)), _withdrawal() if approvals else "")
        others = [tag("p", OTHER.format(name=name, hash=study), class_="warn") for study, name in approvals.items()]
        return join(_heading("Your decision"), against, said, others, form)

    def _ledger(self) -> Markup:
        about = self._folder.ledger().content()
        if not about["releases"] and about["limit"] is None:
            return Markup("")
        limit = "no limit is set in policy.toml" if about["limit"] is None else f"of {about['limit']:g} allowed"
        spent = f"Spent so far: ε = {about['epsilon']:.4g} at δ = {about['delta']:g} ({limit})."
        rows = [(one["time"][:19], one["what"], f"{one['epsilon_spent']:.4g}") for one in about["releases"]]
        return join(_heading("Differential privacy"), tag("p", spent), _table(("time", "release", "ε in all"), rows))

    def _lines(self) -> tuple[list[dict[str, Any]], str]:
        """Return the log and whether it is unbroken; it is read again only when it has grown."""
        path = self._folder.path / "log.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if size != self._log[0]:
            lines: list[dict[str, Any]] = []
            try:
                audit = self._folder.audit()
                lines = list(audit.lines())
                chain = f"{audit.verify()} lines, unbroken."
            except BrokenLog as error:
                chain = f"THE LOG IS BROKEN. {error}"
            self._log = (size, lines, chain)
        return self._log[1], self._log[2]


def _withdrawal() -> Markup:
    button = tag("button", "Withdraw every approval", class_="second", id="withdraw")
    return tag("form", button, data_action="withdraw")


def _study(agreement: Agreement | None, site: str) -> Markup:
    if agreement is None:
        return join(
            _heading("The study"),
            tag("p", "No study was proposed yet. Leave this page open: it appears here when the coordinator asks."),
        )
    parts = [_heading(f"What study {agreement.study} asks of this site")]
    for title, paragraphs in in_sections(agreement, site)[:-1]:
        body = join(tag("h3", title), _in_order(paragraphs))
        parts.append(tag("details", tag("summary", title), body, id="keys") if title == "Keys to compare" else body)
    phrase = tag("p", tag("span", roster_phrase(agreement), class_="phrase", id="phrase"))
    parts += [tag("h3", "The roster phrase"), phrase, tag("p", WHY_THE_PHRASE)]
    return join(parts)


def _in_order(paragraphs: list[str]) -> list[Markup]:
    """Return paragraphs and the lists between them, in the order in which they are to be read."""
    parts = []
    for entries, texts in groupby(paragraphs, lambda text: text.startswith("  - ")):
        shown = [tag("li", text.strip().removeprefix("- ")) if entries else tag("p", text) for text in texts]
        parts += [tag("ul", shown)] if entries else shown
    return parts


def _form(agreement: Agreement, *, even_so: bool) -> Markup:
    tick = "Approve it even so: what it tells together with an earlier study may be told."
    return tag(
        "form",
        void("input", type="hidden", name="hash", value=agreement.hash),
        tag("label", "The roster phrase, as another owner reads it to you", for_="heard"),
        void("input", type="text", id="heard", name="phrase", autocomplete="off", spellcheck="false", required=True),
        _tick("read", "I have read what will leave this machine, and who will see it.", required=True),
        _tick("even_so", tick, required=False) if even_so else None,
        tag("button", "Approve the study", id="approve"),
        data_action="approve",
    )


def _tick(name: str, words: str, *, required: bool) -> Markup:
    box = void("input", type="checkbox", id=name, name=name, value="yes", required=required)
    return tag("label", box, tag("span", words), class_="tick")


def _released(lines: list[dict[str, Any]]) -> Markup:
    answered = [line for line in lines if with_figures(line)]
    refused = sum(line["verdict"] == "refused" for line in lines)
    left = sum(line.get("bytes", 0) for line in lines if line["verdict"] == "answered")
    figures = [
        (f"{len(answered):,}", "answers with figures"),
        (f"{left:,}", "bytes left this machine, keys and signatures included"),
        (str(answered[-1].get("round", "")) if answered else "none yet", "the last round"),
        (f"{refused:,}", "letters refused"),
    ]
    tiles = tag("ul", [tag("li", tag("b", value), tag("span", name)) for value, name in figures], class_="tiles")
    return join(_heading("What has left so far"), tiles)


def _log(lines: list[dict[str, Any]], chain: str) -> Markup:
    rows = [
        (
            line["time"][11:19],
            line.get("round", ""),
            line.get("query") or line.get("kind", "?"),
            line["verdict"],
            released(line),
        )
        for line in reversed(lines[-SHOWN:])
    ]
    told = tag("p", chain, class_="bad" if "BROKEN" in chain else "soft")
    heads = ("time (UTC)", "round", "question", "verdict", "what left")
    return join(_heading("The log, newest first"), told, _table(heads, rows, label="The log"))


def _heading(text: str) -> Markup:
    return tag("h2", text)


def _table(heads: tuple[str, ...], rows: list[Any], label: str = "") -> Markup:
    head = tag("thead", tag("tr", [tag("th", text, scope="col") for text in heads]))
    body = tag("tbody", [tag("tr", [tag("td", cell) for cell in row]) for row in rows])
    return tag("div", tag("table", head, body), class_="scroll", tabindex="0", role="region", aria_label=label or None)
