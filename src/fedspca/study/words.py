"""An agreement in plain words: what a site will be asked, what leaves the machine, how often, and who sees it."""

from collections.abc import Mapping
from math import exp
from typing import Any

from fedspca.door.agreement import Agreement, roster_phrase
from fedspca.fit.settings import each_in_words
from fedspca.letters.identity import fingerprint
from fedspca.site.policy import GRAM
from fedspca.site.preparation import joint_transform
from fedspca.site.queries import QUERIES
from fedspca.study.progress import expected_questions
from fedspca.study.settings import CONSENSUS, ODD_UNITS

DROPOUT = {
    "wait": "If a site no longer answers, the study waits for it.",
    "abort": "If a site no longer answers, the study stops.",
    "continue": (
        "If a site no longer answers, the study goes on without it. Without masks the coordinator sees each site's "
        "terms anyway; under masks only releases with noise go on, since the difference of two exact sums would be one "
        "site's own."
    ),
}
NAMED = 12  # features that are named; the agreement has them all
NO_ROW = "No row leaves this machine. What leaves is a term of a sum over all sites, in answer to these questions:"
MASKED = (
    "Masked: this site's terms are hidden under random masks that cancel in the sum. The coordinator, whoever runs its "
    "machine, and the other sites see the sum over {summed}, and no term of this site alone. But another site can "
    "subtract its own terms: what is left is the sum over {others} sites, this one among them. Sites that work "
    "together with the coordinator can tell more: all others together, or more than two thirds of all sites, may have "
    "this site's own terms. The coordinator keeps the sums, and can hand them on so that others can check the study "
    "(the folder bundle)."
)
IN_THE_LOG = (
    "The log counts masked words of 8 bytes, which are more than the numbers above: a masked number takes up to eight, "
    "and a few more let the sites check the sum."
)
NOT_MASKED = (
    "NOT masked: the coordinator sees this site's own terms. From enough of them it can work out this site's "
    "covariance matrix exactly, and from that much about the rows of a small site. It can keep them, and hand them on. "
    "The other sites do not get them; from the questions they can work out much of the covariance over all sites."
)
NOT_MASKED_NOISED = (
    "NOT masked: the coordinator sees this site's own terms, each with noise. It can keep them, and hand them on."
)
RESULT = (
    "The result is the weights of the components and, over the rows of all sites together, how many there are, how "
    "much of their variance the components explain, and the mean and the spread of each feature. It names the sites. "
    "The coordinator has it and may publish it."
)
WITHDRAW = (
    "You can withdraw the approval at any time. The site then answers nothing more of this study; what has left before "
    "cannot be called back."
)
DUE = (
    "The coordinator cannot choose the questions freely: this site works the study out itself from the sums, and "
    "answers only the question that is due next (unless replay is switched off in its policy.toml)."
)
BESIDE = (
    "Besides the terms, the coordinator gets: this site's name and public keys; in the reply to the invitation, the "
    "names and types of all features of this site's file; whether you have approved, and the signed approval; the "
    "reason if the site refuses a question; the release of fedspca; a seal of this site's log; when messages come, "
    "and their sizes."
)
BESIDE_MASKS = (
    "Under masks it also gets the public keys and shares of the masks and, at the end, a signed statement of the sums "
    "that this site saw and of the components that it computed from them."
)
BUT_CONSENSUS = (
    "BUT the solver is a consensus method. Its sums over hundreds of rounds tell the coordinator this site's OWN "
    "covariance matrix, by a least-squares fit, although no term is seen. Approve it only if you would approve a study "
    "without masks."
)
WHY_THE_PHRASE = (
    "Read it to the OTHER OWNERS over the telephone, and let them read theirs to you. If it differs, or if an owner "
    "does not exist, do not approve: some sites may be the coordinator's own, and the sum over them and you would then "
    "tell your numbers."
)


def sparsity_in_words(fit: Mapping[str, Any]) -> str:
    """Return how sparse the components are to be."""
    if fit.get("nonzero") == "auto":
        return "the number of features that predicts left-out rows best"
    if fit.get("nonzero") is not None:
        each = "" if isinstance(fit["nonzero"], tuple | list) else " each"
        return f"{each_in_words(fit['nonzero'])} features{each}"
    if fit.get("lam") is not None:
        lam1 = fit.get("lam1")
        smoothed = "" if lam1 is None else f", of the smoothed norm at each site {each_in_words(lam1)}"
        return f"l1 penalty {each_in_words(fit['lam'])}{smoothed}"
    return f"the sparsest that keep {fit.get('variance_kept') or 0.95:.0%} of the variance of dense PCA"


def preparation_in_words(fit: Mapping[str, Any]) -> list[str]:
    """Say which columns are taken as covariates and weights, and how sites are weighted."""
    told = []
    if fit.get("transform"):
        told.append(f"Values are first transformed: {', '.join(fit['transform'])}.")
    if fit.get("variable"):
        told.append(f"Only the {fit['variable']} features of the largest variance are used.")
    if fit.get("transform") and joint_transform(fit["transform"][-1]) is not None:
        told.append("The last of these transforms needs all sites: its parameters are sums over them.")
    if fit.get("adjust"):
        told.append(f"What these columns explain is taken out of the features first: {', '.join(fit['adjust'])}.")
    if fit.get("weight"):
        told.append(f"Rows count as often as the column {fit['weight']!r} says.")
    if fit.get("scale_by") == "allele":
        told.append("Features are genotypes, divided by the spread that their allele frequencies over all sites give.")
    if fit.get("site_weight") == "equal":
        told.append("Every site counts alike, however many rows it has.")
    if fit.get("centre") == "site":
        spread = " and divided by its own spread" if fit.get("scale_by") == "site" else ""
        told.append(f"Each site's rows are seen about its own mean{spread}, which stay here.")
    if fit.get("centre") == "combat":
        protect = fit.get("protect") or []
        verb = "explains" if len(protect) == 1 else "explain"
        kept = f" What {' and '.join(protect)} {verb} of the features stays." if protect else ""
        told.append(
            "Each site's own shift and spread are taken out of its rows, shrunk over the features (ComBat). Both stay "
            f"here.{kept}"
        )
    return told


def in_words(agreement: Agreement, site: str) -> list[str]:
    """Return paragraphs that an owner and a data-protection officer can read and sign."""
    return [paragraph for _, paragraphs in in_sections(agreement, site) for paragraph in paragraphs]


def in_sections(agreement: Agreement, site: str) -> list[tuple[str, list[str]]]:
    """Return the same paragraphs under headings; one that begins with a dash is an entry of a list."""
    others = [name for name in agreement.sites if name != site]
    return [
        ("In short", _in_short(agreement)),
        ("What is computed", [_what(agreement), *preparation_in_words(agreement.fit), *_update(agreement)]),
        (
            "Who takes part",
            [f"Sites: {site} (this one), {', '.join(others)}. {_summed(agreement)}"],
        ),
        (
            "What leaves this machine",
            [
                NO_ROW,
                *(f"  - {name}: {QUERIES[name].releases}." for name in agreement.questions),
                _symbols(agreement),
                BESIDE,
                *([BESIDE_MASKS] if agreement.masked else []),
            ],
        ),
        ("How often", [_how_often(agreement), *_due(agreement), *_by_fold(agreement), *_sampled(agreement), WITHDRAW]),
        ("Who sees it", [*_masks(agreement), _noise(agreement)]),
        ("What comes of it", [f"{RESULT} Each site works it out too." if agreement.masked else RESULT]),
        ("If a site is lost", [DROPOUT[agreement.on_dropout]]),
        (
            "Keys to compare",
            [
                f"The coordinator's key: {fingerprint(agreement.coordinator)}. Compare it over the telephone.",
                *(f"The key of {name}: {fingerprint(agreement.sites[name])}." for name in others),
                f"The hash that you sign: {agreement.hash}",
            ],
        ),
        ("The roster phrase", [f"The roster phrase: {roster_phrase(agreement)}. {WHY_THE_PHRASE}"]),
    ]


def _in_short(agreement: Agreement) -> list[str]:
    many = len(agreement.features)
    names = ", ".join(agreement.features[:NAMED]) + (f" and {many - NAMED} more" if many > NAMED else "")
    if agreement.masked:
        seen = f"They are hidden by masks: the coordinator and the other sites see totals over {_over(agreement)} only."
    else:
        seen = "They are not hidden: the coordinator sees this site's own figures."
    rows = f"each of {agreement.folds} parts of the rows" if agreement.folds else "all rows"
    told = f"The rows stay here. What leaves are figures over {rows} of this site{_figures(agreement)}. {seen}"
    return [told, f"The features: {names}."]


def _figures(agreement: Agreement) -> str:
    """Return the figures in everyday words, with how many there are."""
    d = len(agreement.features)
    if agreement.privacy is not None:
        return (
            f", with random noise against finding any one row (ε = {agreement.privacy['epsilon']:g}; how much that "
            "hides is said below): how many there are, each feature's mean, how far the rows lie from a stated centre, "
            "and how the features vary together"
        )
    parts = " a part" if agreement.folds else ""
    pairs = f" ({d * (d + 1) // 2:,} numbers{parts} for {d:,} features)" if GRAM in agreement.questions else ""
    beside = ", how the features go with the covariates" if agreement.fit.get("adjust") else ""
    steps = ", steps towards the components" if agreement.fit.get("solver") in CONSENSUS else ""
    units = ", whether each feature seems to have another unit here" if ODD_UNITS in agreement.questions else ""
    return (
        f": how many there are, each feature's sum and spread, how every two features vary together{pairs}{beside}"
        f"{steps}{units}, and how far the rows lie from the components (two numbers)"
    )


def _exact(agreement: Agreement) -> bool:
    """Return whether sums are masked and without noise: then each is over all sites."""
    return agreement.masked and agreement.privacy is None


def _summed(agreement: Agreement) -> str:
    if _exact(agreement):
        return "Every sum is over all of them."
    return f"A sum is over at least {agreement.min_sites} of them."


def _over(agreement: Agreement) -> str:
    if _exact(agreement) or agreement.min_sites == len(agreement.sites):
        return f"all {len(agreement.sites)} sites"
    return f"at least {agreement.min_sites} of {len(agreement.sites)} sites"


def _symbols(agreement: Agreement) -> str:
    return (
        f"In these lines n is the number of rows, d the number of features ({len(agreement.features):,}), and r the "
        f"number of directions (at most {agreement.max_components})."
    )


def _what(agreement: Agreement) -> str:
    fit = agreement.fit
    count = "as many as are more than chance" if fit.get("components") == "auto" else fit.get("components")
    what = f"{count} sparse principal components of {len(agreement.features)} features"
    return f"Study {agreement.study!r}: {what} ({sparsity_in_words(fit)}; solver {fit.get('solver')})."


def _update(agreement: Agreement) -> list[str]:
    if agreement.update is None:
        return []
    adds = ", ".join(agreement.update["adds"])
    told = (
        f"It updates the model of an earlier run (agreement {agreement.update['of'][:16]}…): these sites have new rows "
        f"or join: {adds}. Whoever has both models can tell what their new rows add together."
    )
    checked = "Each of these sites refuses if it adds too few rows, and any other site if its rows were changed."
    return [told, checked]


def _how_often(agreement: Agreement) -> str:
    expected = expected_questions(agreement)
    usual = "" if expected is None else f"A run usually asks about {expected} questions. "
    return (
        f"{usual}At most {agreement.max_rounds} questions a run may be asked, each about at most "
        f"{agreement.max_components} directions; over all runs, as many questions as max_rounds in this site's "
        "policy.toml. Every answer is in this site's log."
    )


def _due(agreement: Agreement) -> list[str]:
    return [DUE] if agreement.masked else []


def _by_fold(agreement: Agreement) -> list[str]:
    if not agreement.folds:
        return []
    told = (
        f"Sums are given by fold: this site deals its rows into {agreement.folds} folds at random, and answers most "
        "questions once for each. A sum is then over a part of the rows. A site that holds too few rows refuses."
    )
    noised = (
        "A row is in one fold, whichever other rows there are, and each fold has the noise of a whole answer: by fold, "
        "the release costs no more of the budget."
    )
    return [told] if agreement.privacy is None else [told, noised]


def _sampled(agreement: Agreement) -> list[str]:
    if not agreement.sample:
        return []
    told = (
        f"First one row in {agreement.sample} is asked about: this site draws them by the study's seed, the same ones "
        "each time. How features vary together is told over this sample, and products then over all rows. So a sum "
        "may be over a part of the rows. A site refuses if its sample holds fewer rows than its policy requires."
    )
    return [told]


def _masks(agreement: Agreement) -> list[str]:
    if not agreement.masked:
        return [NOT_MASKED if agreement.privacy is None else NOT_MASKED_NOISED]
    least = len(agreement.sites) if _exact(agreement) else agreement.min_sites
    others = f"{least - 1}" if least == len(agreement.sites) else f"at least {least - 1}"
    summed = "all sites" if least == len(agreement.sites) else _over(agreement)
    masked = MASKED.format(summed=summed, others=others)
    return [masked, *([BUT_CONSENSUS] if agreement.consensus_under_masks else []), IN_THE_LOG]


def _noise(agreement: Agreement) -> str:
    if agreement.privacy is None:
        return (
            "No noise is added: the sums are exact, and what they tell of rows is not bounded. The fewer the rows, the "
            "more they tell of each."
        )
    about = ", ".join(f"{name} = {value}" for name, value in agreement.privacy.items())
    right = 100 / (1 + exp(-float(agreement.privacy["epsilon"])))
    return (
        f"Differentially private for each row: {about}. With this ε, someone who would have guessed at even odds "
        f"whether a row is in the data guesses right at best {right:.4g} times in 100. 50 would be chance."
    )
