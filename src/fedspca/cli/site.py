"""``fedspca site``: the owner's commands."""

import json
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspca.cli.open import Browser, Port, show_page
from fedspca.cli.options import AsJson, settings_as_options
from fedspca.cli.output import cells, console, notes, print_json, print_table, sentence, table, visible
from fedspca.fit.settings import FitSettings
from fedspca.site.errors import count
from fedspca.study.log_words import released

if TYPE_CHECKING:
    from fedspca.study.owner import SiteFolder

app = typer.Typer(
    help="Take part in a study between institutions with data that stay here.",
    add_completion=False,  # the fedspca command provides completion
    no_args_is_help=True,
    rich_markup_mode="rich",
)
At = Annotated[Path, typer.Option("--site", help="The site's folder.")]
HERE = Path("site")
SURE = 16  # digits of a hash for which finding a second text is infeasible
NOT_CONNECTED, NOT_RUNNING = 1, 3  # exit codes of `status`, for monitoring; 3 as service managers use it


@app.command("init")
@settings_as_options(FitSettings, "data", "columns")
def init(
    settings: dict[str, Any],
    data: Annotated[str, typer.Argument(help="This site's rows: CSV, Parquet, h5ad, npy, …", metavar="DATA")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new site's folder.")] = HERE,
) -> None:
    """Make the folder of a site: keys, a policy with safe defaults, and a dry run of the data.

    For example:

      fedspca site init patients.parquet --id patient --exclude age
    """
    from fedspca.study.owner import SiteFolder

    site = SiteFolder.create(output, FitSettings(files=(data,)).with_given(settings))
    _show_schema(site)
    console().print(
        f"Made {output}. Read {output / 'policy.toml'}: it says what this site allows. Then take the invitation that "
        f"you were sent: fedspca site join INVITATION{_at(output)}",
        soft_wrap=True,
    )


@app.command("join")
def join(
    invitation: Annotated[Path | None, typer.Argument(help="The invitation, the first time.")] = None,
    site: At = HERE,
    reply_only: Annotated[bool, typer.Option("--reply-only", help="Write the reply and do not connect.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the command of the node and start nothing.")] = False,
    socket: Annotated[
        Path | None, typer.Option("--socket", help="Start the guard alone, at this socket; the node runs elsewhere.")
    ] = None,
) -> None:
    """Take an invitation, and stay connected until Ctrl-C. Nothing is answered before you approve the study.

    For example:

      fedspca site join north.invitation
    """
    from fedspca.letters.identity import fingerprint

    folder = _folder(site)
    if invitation is not None:
        reply = folder.join(invitation)
        coordinator = fingerprint(folder.invitation.coordinator)
        console().print(f"Send this reply to the coordinator: {folder.reply_file(reply.site)}", soft_wrap=True)
        console().print(f"Your key: {fingerprint(reply.public)}", soft_wrap=True)
        console().print(f"The coordinator's: {coordinator}. Compare them over the telephone.", soft_wrap=True)
    if show:
        from fedspca.flower.commands import shown
        from fedspca.study.guard import node_command

        command = node_command(folder, folder.invitation, socket or Path("SOCKET"))
        console().print(shown(command), soft_wrap=True)
    elif not reply_only:
        _stay(folder, socket)


@app.command("status")
def status(site: At = HERE, as_json: AsJson = False) -> None:
    """Say how the site is doing. The exit code is 0 if it is connected, 1 if not, and 3 if its guard does not run."""
    from fedspca.study.guard import standing

    folder = _folder(site)
    how = standing(folder)
    cautions = folder.cautions()
    if as_json:
        about = {
            "connected": how.connected,
            "pid": how.pid,
            "told": how.told,
            "since": how.since,
            "trouble": how.trouble,
        }
        print_json({**about, "cautions": cautions})
    elif how.pid is None:
        console().print(f"Not running. Connect with: fedspca site join{_at(site)}", soft_wrap=True)
    else:
        console().print(f"Process {how.pid}: {visible(how.trouble or how.told)}", soft_wrap=True)
    for odd in [] if as_json else cautions:
        console().print(f"CAUTION: {visible(sentence(odd))}", soft_wrap=True)
    if not how.connected:
        raise typer.Exit(NOT_RUNNING if how.pid is None else NOT_CONNECTED)


@app.command("stop")
def stop(site: At = HERE) -> None:
    """Disconnect the site: stop its guard and the node, from any terminal."""
    from fedspca.study.guard import stop_site

    console().print("Stopped." if stop_site(_folder(site)) else "It was not running.")


@app.command("doctor")
def doctor(site: At = HERE, as_json: AsJson = False) -> None:
    """Try each thing that the site needs, and say what is wrong. The exit code is 1 if anything is."""
    from fedspca.study.doctor import examine

    findings = []
    for finding in examine(_folder(site)):
        findings.append(finding)
        if not as_json:
            sign = "well " if finding.well else "WRONG"
            console().print(visible(f"{sign} {finding.name}: {finding.words}"), soft_wrap=True)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    if not all(finding.well for finding in findings):
        raise typer.Exit(1)


@app.command("service")
def service(
    site: At = HERE,
    account: Annotated[
        str | None, typer.Option("--account", help="A unit of the system, under this account; else one of yours.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that the unit is written into.")] = Path(),
) -> None:
    """Write a unit of systemd that keeps the site connected, and say how to install it."""
    from fedspca.cli.open import write_service
    from fedspca.study.services import site_service

    folder = _folder(site)
    about = folder.invitation
    write_service(site_service(folder.path, about.site, about.study, account), output)


@app.command("open")
def open_in_browser(
    site: At = HERE,
    browser: Browser = True,
    port: Port = 0,
) -> None:
    """Show the study in the browser: what it asks, who takes part, what will leave and has left. Approve it there."""

    def page() -> Any:
        from fedspca.study.page import OwnerPage

        return OwnerPage(_folder(site))

    show_page(page, browser=browser, port=port)


@app.command("leave")
def leave(
    site: At = HERE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Leave the study: disconnect, take approvals back, forget the invitation. The log and the ledger are kept."""
    folder = _folder(site)
    if not yes:
        study = folder.invitation.study
        console().print(visible(f"This site leaves study {study!r} and answers nothing more of it."), soft_wrap=True)
        typer.confirm("Leave it?", abort=True)
    from fedspca.study.guard import stop_site

    stop_site(folder)
    folder.leave()
    kept = f"{folder.path / 'log.jsonl'} and {folder.path / 'ledger.jsonl'} are kept"
    console().print(f"Left. {kept}; the site can take another invitation.", soft_wrap=True)


@app.command("show")
def show(site: At = HERE, as_json: AsJson = False) -> None:
    """Say in words what the study will ask of this site, what leaves the machine, how often, and who sees it."""
    from fedspca.door.agreement import objections, owners_objections
    from fedspca.study.earlier import told_together
    from fedspca.study.words import in_words

    folder = _folder(site)
    agreement, name = folder.latest(), folder.invitation.site
    approved = folder.store.approved(agreement.hash) is not None
    rows = folder.open_site()
    found = objections(agreement, folder.policy, rows=rows.n_rows, features=agreement.features)
    found += owners_objections(agreement, rows.n_rows)
    found += told_together(agreement, folder.store, folder.open_site(agreement))
    if as_json:
        words = in_words(agreement, name)
        print_json({"agreement": agreement.hash, "approved": approved, "words": words, "objections": found})
        return
    for paragraph in in_words(agreement, name):
        console().print(visible(paragraph), soft_wrap=True)
    for objection in found:
        console().print(f"What speaks against it: {visible(objection)}.", soft_wrap=True)
    state = "You have approved it." if approved else f"You have not approved it: fedspca site approve{_at(site)}"
    console().print(state, soft_wrap=True)


@app.command("approve")
def approve(
    site: At = HERE,
    agreement_hash: Annotated[
        str | None, typer.Option("--hash", help="Approve only if the hash begins like this.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needs --hash.")] = False,
    even_so: Annotated[
        bool,
        typer.Option(
            "--even-so", help="Approve although the difference to an earlier study tells of few sites or rows."
        ),
    ] = False,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take every approval back, or with --hash that of one study.")
    ] = False,
) -> None:
    """Sign the hash of the study's agreement. Without the signature the site answers nothing.

    You are asked for the roster phrase, as another owner reads it to you.
    """
    from fedspca.door.agreement import owners_objections, roster_phrase
    from fedspca.study.earlier import told_together
    from fedspca.study.words import in_words

    folder = _folder(site)
    if withdraw:
        _withdraw(folder, agreement_hash)
        return
    agreement = folder.latest()
    if agreement_hash is not None and not agreement.hash.startswith(agreement_hash):
        raise ValueError(f"The study's hash is {agreement.hash}, which does not begin with {agreement_hash}.")
    if yes and len(agreement_hash or "") < SURE:
        raise ValueError(f"--yes needs --hash with at least {SURE} digits: a later proposal could be another study.")
    if found := owners_objections(agreement, folder.open_site().n_rows):
        raise ValueError(f"{found[0]}, so their covariance would tell the rows themselves.")
    if not even_so and (found := told_together(agreement, folder.store, folder.open_site(agreement))):
        raise ValueError(f"Together with an earlier study it tells more: {found[0]}. If that may be told: --even-so")
    if not yes:
        for paragraph in in_words(agreement, folder.invitation.site):
            console().print(visible(paragraph), soft_wrap=True)
        _compare_phrase(typer.prompt("The roster phrase, as another owner reads it to you"), roster_phrase(agreement))
        typer.confirm("Approve it?", abort=True)
    folder.store.approve(agreement)
    console().print(f"Approved: study {agreement.study!r}, hash {agreement.hash}.", soft_wrap=True)


def _compare_phrase(heard: str, phrase: str) -> None:
    if "".join(heard.lower().split()) != phrase.replace(" ", ""):
        raise ValueError(
            f"The phrase is {phrase} here, and not what you typed. If the other owner reads another one, you were not "
            "shown the same sites and terms: do not approve, and ask the coordinator why."
        )


def _withdraw(folder: "SiteFolder", beginning: str | None) -> None:
    """Take approvals back: all of them, whatever was proposed since, or those whose hash begins so."""
    approved = folder.approvals()
    chosen = [study for study in approved if study.hash.startswith(beginning or "")]
    if beginning is not None and not chosen:
        raise ValueError(f"No study whose hash begins with {beginning} is approved.")
    for study in chosen:
        folder.store.withdraw(study)
        text = f"Withdrawn: the site answers nothing more of study {study.study!r}, hash {study.hash}."
        console().print(visible(text), soft_wrap=True)
    left = len(approved) - len(chosen)
    console().print("No study is approved now." if not left else f"{left} other studies stay approved.")


@app.command("log")
def log(
    site: At = HERE,
    verify: Annotated[bool, typer.Option("--verify", help="Check that the log is as it was written.")] = False,
    heads: Annotated[
        Path | None, typer.Option("--heads", help="With --verify: the heads of this log that the coordinator kept.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show every question that was asked and what left the machine."""
    audit = _folder(site).audit()
    if verify:
        count = audit.verify(_kept_heads(heads, _folder(site).invitation.site) if heads is not None else ())
        if as_json:
            print_json({"lines": count, "head": audit.head})
            return
        console().print(f"{count} lines, unbroken. The last one's hash: {audit.head}", soft_wrap=True)
        return
    lines = list(audit.lines())
    if as_json:
        print_json(lines)
        return
    shown = table(("time", "left"), ("round", "right"), ("question", "left"), ("verdict", "left"), ("released", "left"))
    for line in lines:
        asked = line.get("query") or line.get("kind", "?")
        shown.add_row(*cells(line["time"][:19], line.get("round", ""), asked, line["verdict"], released(line)))
    print_table(shown)


def _kept_heads(path: Path, site: str) -> list[str]:
    """Return the heads of this site's log in the file ``heads.json`` that the coordinator's study keeps."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return [str(head) for head in kept[site]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path}: it does not hold the heads of the log of site {site!r}.") from None


def _folder(site: Path) -> "SiteFolder":
    from fedspca.study.owner import SiteFolder

    return SiteFolder(site)


def _stay(folder: "SiteFolder", socket: Path | None) -> None:
    """Stay connected, and tell what happens, until Ctrl-C."""
    try:
        from fedspca.study.guard import keep_connected, keep_guard
    except ImportError as error:
        raise ValueError(f"Studies between institutions need Flower ({error}): pip install 'fedspca[flower]'") from None
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):  # a service manager stops us, or the terminal closes
        signal.signal(number, lambda *_: stop.set())

    def heard(line: Mapping[str, Any]) -> None:
        asked = line.get("query") or line.get("kind", "?")
        text = f"{line['time'][11:19]} {asked}: {line['verdict']}, {released(line)}"
        notes().print(visible(text), soft_wrap=True)
        if asked == "propose" and line["verdict"] == "answered" and (waiting := _waiting_for_approval(folder)):
            notes().print(visible(waiting), soft_wrap=True)

    def tell(text: str) -> None:
        notes().print(visible(text), soft_wrap=True)

    try:
        if socket is not None:
            keep_guard(folder, socket, tell, heard, stop)
        else:
            keep_connected(folder, tell, heard, stop)
    except KeyboardInterrupt:
        stop.set()
        notes().print("Disconnected. Connect again with: fedspca site join", soft_wrap=True)


def _waiting_for_approval(folder: "SiteFolder") -> str:
    """Return what the owner may do about a study that was just proposed: this terminal is busy."""
    agreement = folder.latest()
    if folder.store.approved(agreement.hash) is not None:
        return ""
    at = _at(folder.path)
    return (
        f"Study {agreement.study!r} waits for your approval. Open a second terminal and type: fedspca site open{at}; "
        f"or, without a browser: fedspca site show{at}, then: fedspca site approve{at}"
    )


def _show_schema(folder: "SiteFolder") -> None:
    from fedspca.fit.inputs import open_inputs

    inputs = open_inputs(folder.data)
    rows, names = count(inputs.sites[0].rows.shape[0], "row"), inputs.feature_names
    named = f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
    console().print(f"{rows}, {count(len(names), 'feature')}: {named}")
    for odd in inputs.oddities:
        console().print(f"CAUTION: {visible(sentence(odd))}", soft_wrap=True)


def _at(path: Path) -> str:
    return "" if path == HERE else f" --site {path}"
