"""An agreement in plain words: what a site will be asked, what leaves the machine, how often, and who sees it."""

from collections.abc import Mapping
from typing import Any

from fedspca.door.agreement import Agreement, roster_phrase
from fedspca.letters.identity import fingerprint
from fedspca.site.queries import QUERIES

DROPOUT = {
    "wait": "If a site is lost, the study waits for it.",
    "abort": "If a site is lost, the study stops.",
    "continue": (
        "If a site is lost, the study goes on without it. Without masks the coordinator sees each site's terms anyway; "
        "under masks only releases with noise go on, since the difference of two exact sums would be one site's own."
    ),
}


def sparsity_in_words(fit: Mapping[str, Any]) -> str:
    """Return how sparse the components are to be."""
    if fit.get("nonzero") is not None:
        return f"{fit['nonzero']} features each"
    if fit.get("lam") is not None:
        smoothed = "" if fit.get("lam1") is None else f", of the smoothed norm at each site {fit['lam1']}"
        return f"l1 penalty {fit['lam']}{smoothed}"
    return f"the sparsest that keep {fit.get('variance_kept') or 0.95:.0%} of the variance of dense PCA"


def in_words(agreement: Agreement, site: str) -> list[str]:
    """Return paragraphs that an owner and a data-protection officer can read and sign."""
    fit, d = agreement.fit, len(agreement.features)
    others = [name for name in agreement.sites if name != site]
    what = f"{fit.get('components')} sparse principal components of {d} features"
    lines = [
        f"Study {agreement.study!r}: {what} ({sparsity_in_words(fit)}; solver {fit.get('solver')}).",
        f"Sites: {site} (this one), {', '.join(others)}. A sum is over at least {agreement.min_sites} of them.",
        "No row leaves this machine. What leaves is a term of a sum over all sites, in answer to these questions:",
    ]
    lines += [f"  - {name}: {QUERIES[name].releases}." for name in agreement.questions]
    lines.append(
        f"At most {agreement.max_rounds} questions a run, each about at most {agreement.max_components} directions; "
        "over all runs, as many questions as max_rounds in this site's policy.toml; every answer is in this site's log."
    )
    if agreement.masked:
        lines.append(
            "Masked: this site's terms are hidden under random masks that cancel in the sum. The coordinator, and "
            "whoever runs its machine, sees the sum over all sites and nothing else."
        )
        if agreement.consensus_under_masks:
            lines.append(
                "BUT the solver is a consensus method. Its sums over hundreds of rounds tell the coordinator this "
                "site's OWN covariance matrix, by a least-squares fit, although no term is seen. Approve it only if "
                "you would approve a study without masks."
            )
    else:
        lines.append(
            "NOT masked: the coordinator sees this site's own terms. From enough of them it can work out this site's "
            "covariance matrix exactly, and from that much about the rows of a small site."
        )
    if agreement.privacy is None:
        lines.append("No noise is added: the sums are exact, and what they tell of rows is not bounded.")
    else:
        about = ", ".join(f"{name} = {value}" for name, value in agreement.privacy.items())
        lines.append(f"Differentially private for each row: {about}.")
    lines.append(DROPOUT[agreement.on_dropout])
    lines.append(f"The coordinator's key: {fingerprint(agreement.coordinator)}. Compare it over the telephone.")
    lines += [f"The key of {name}: {fingerprint(agreement.sites[name])}." for name in others]
    lines.append(f"The hash that you sign: {agreement.hash}")
    lines.append(
        f"The roster phrase: {roster_phrase(agreement)}. Read it to the OTHER OWNERS over the telephone, and let them "
        "read theirs to you. If it differs, or if an owner does not exist, sites are the coordinator's own, and a sum "
        "over them and you is yours."
    )
    return lines
