"""``fedspca study``: the coordinator's commands."""

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fedspca.cli.open import Browser, Port, show_page
from fedspca.cli.options import AsJson, settings_as_options, split_names
from fedspca.cli.output import cells, console, notes, print_json, print_table, sentence, short, table, visible
from fedspca.cli.watching import clock, follow, happening_in, show_result, watch
from fedspca.fit.settings import FitSettings, SolverSettings
from fedspca.study.settings import StudySettings

if TYPE_CHECKING:
    from fedspca.study.coordinator import StudyFolder

app = typer.Typer(
    help="Lead a study between institutions: data stay where they are.",
    add_completion=False,  # the fedspca command provides completion
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Folder = Annotated[Path, typer.Argument(help="The study's folder.", metavar="[STUDY]")]
HERE = Path("study")
LONGEST_STATE = 400  # most characters of the state that a site reports
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        help="Seconds to wait for sites that are not here or not approved. Without it: 90, for those not here.",
        show_default=False,
    ),
]


@app.command("init")
@settings_as_options(StudySettings, "study", "adjust", "fit", "federation", "privacy")
def init(settings: dict[str, Any], folder: Folder = HERE) -> None:
    """Make the folder of a new study: settings, keys, certificates, and an invitation to each site.

    For example:

      fedspca study init heart --sites north,south,east --host pca.example.org -r 3 --nonzero 10
    """
    from fedspca.study.coordinator import StudyFolder

    study = StudySettings(name=folder.name).with_given(settings)
    made = StudyFolder.create(folder, study)
    say = console()
    say.print(f"Made {folder}. Read {folder / 'study.toml'}; owners will sign what is in it.", soft_wrap=True)
    say.print("Send each site its invitation:", soft_wrap=True)
    for site in study.sites:
        say.print(f"  {made.path / 'invitations' / site}.invitation", soft_wrap=True)
    say.print(f"Your key, for owners to compare over the telephone: {made.identity.fingerprint}", soft_wrap=True)
    say.print(f"Take their replies with: fedspca study admit {folder} REPLY...", soft_wrap=True)


@app.command("admit")
def admit(
    folder: Annotated[Path, typer.Argument(help="The study's folder.", metavar="STUDY")],
    replies: Annotated[list[Path], typer.Argument(help="What sites sent back.", metavar="REPLY...")],
) -> None:
    """Take the sites' replies to their invitations."""
    from fedspca.letters.identity import fingerprint

    study = _study(folder)
    for path in replies:
        reply = study.admit(path)
        console().print(f"{reply.site}: taken. Its key: {fingerprint(reply.public)}", soft_wrap=True)
    missing = [site for site in study.settings.sites if site not in study.replies()]
    then = f"Still to come: {', '.join(missing)}." if missing else f"All are here: fedspca study start {folder}"
    console().print(then, soft_wrap=True)


@app.command("invite")
def invite(
    folder: Annotated[Path, typer.Argument(help="The study's folder.", metavar="STUDY")],
    sites: Annotated[list[str], typer.Argument(help="The names of the new sites.", metavar="SITE...")],
) -> None:
    """Invite more sites to a study. Owners approve again, since the agreement then names them too."""
    for site in sites:
        console().print(f"Send {site} its invitation: {_study(folder).invite(site)}", soft_wrap=True)
    console().print(f"Take the replies with: fedspca study admit {folder} REPLY...", soft_wrap=True)


@app.command("start")
def start(
    folder: Folder = HERE,
    show: Annotated[bool, typer.Option("--show", help="Print the plain Flower commands and start nothing.")] = False,
) -> None:
    """Start the study's server, so that sites can connect."""
    engine = _engine(_study(folder))
    if show:
        from fedspca.flower.commands import shown

        for command in engine.commands():
            console().print(shown(command), soft_wrap=True)
        return
    study = _study(folder).settings
    engine.start()
    console().print(
        f"Sites can connect to {study.host}:{study.port}. See who is here: fedspca study status {folder}",
        soft_wrap=True,
    )


@app.command("renew")
def renew(
    folder: Folder = HERE,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="Your institution's certificate for this machine, in PEM.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Its private key, without a password.")] = None,
    authority: Annotated[
        Path | None, typer.Option("--authority", help="The certificate of the authority that signed it.")
    ] = None,
) -> None:
    """Renew the certificate of the study's server: before it expires, or for another host or port in study.toml.

    Without files the study's own authority issues it. With all three files sites are shown your institution's.
    """
    from fedspca.flower.certificates import Certificates

    if len({path is None for path in (certificate, key, authority)}) > 1:
        raise ValueError("Give --certificate, --key and --authority together, or none of them.")
    study = _study(folder)
    given = None if certificate is None or key is None or authority is None else (authority, certificate, key)
    changed = study.renew(None if given is None else Certificates(*given))
    say = console()
    say.print(f"Renewed for {study.settings.host}.", soft_wrap=True)
    if changed:
        say.print("Send these sites their invitation again; they take it with: fedspca site join INVITATION")
        for site in changed:
            say.print(f"  {study.path / 'invitations' / site}.invitation", soft_wrap=True)
    if _engine(study).runs:
        say.print(f"It is used from the next start on: fedspca study stop {folder}; fedspca study start {folder}")


@app.command("status")
def status(
    folder: Folder = HERE,
    known: Annotated[bool, typer.Option("--known", help="Show what the sites said last, and ask nobody.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send the agreement to the sites. Show who is connected, whose data fit, and who has approved.

    After a run it also says what to be careful about, such as a unit that may be wrong at some site.
    """
    from fedspca.letters.identity import fingerprint

    study = _study(folder)
    agreement, engine = study.agreement(), _engine(study)
    nobody = "the study is not started" if not engine.runs else "not asked yet"
    said, when = study.last_said(agreement.hash) or (dict.fromkeys(agreement.sites, nobody), None)
    if when is not None and not as_json:
        told = "; ".join(f"{site}: {state}" for site, state in said.items())
        notes().print(visible(f"{told} (asked at {clock(when)})"), soft_wrap=True)
    if not engine.runs:
        said = dict.fromkeys(agreement.sites, nobody)
    elif not known and engine.going_on() is None:  # during a run, sites are asked anyway
        for event in happening_in(study, engine, "status"):
            said = event.get("said", said)
            if event["event"] == "failed":
                raise ValueError(event["error"])
    cautions = _cautions(study, agreement.hash)
    if as_json:
        known_now = {"study": agreement.study, "agreement": agreement.hash, "sites": said, "asked": when}
        print_json({**known_now, "cautions": cautions})
        return
    shown = table(("site", "left"), ("state", "left"), ("key", "left"))
    for site, state in said.items():
        name, key = cells(site, fingerprint(agreement.sites[site]))
        shown.add_row(name, Text(short(state, LONGEST_STATE)), key)  # long enough to show a whole reason
    print_table(shown)
    ready = all(state == "approved" for state in said.values())
    features = f"{len(agreement.features)} features agreed. " if said else ""
    then = f"Run it: fedspca study run {folder}" if ready else "Owners approve with: fedspca site approve"
    if not engine.runs:
        then = f"Start it: fedspca study start {folder}"
    console().print(f"{features}{then}", soft_wrap=True)
    for caution in cautions:
        console().print(f"CAUTION: {visible(sentence(caution))}", soft_wrap=True)


@app.command("run")
def run(
    folder: Folder = HERE,
    wait: Wait = None,
    update: Annotated[
        str | None,
        typer.Option("--update", help="Update the model of the last run: the sites with new rows, or that join."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the components over all sites. The result is the folder `model` in the study's.

    For example, after north, south and east have added rows to their files and joined again:

      fedspca study run heart --update north,south,east --wait 600
    """
    if update is not None:
        _study(folder).plan_update(split_names(update))
    _run(folder, "run", wait, as_json=as_json)


@app.command("resume")
def resume(folder: Folder = HERE, wait: Wait = None, as_json: AsJson = False) -> None:
    """Go on with a run that was stopped, or watch one that goes on. What sites answered is not asked again."""
    study = _study(folder)
    engine = _engine(study)
    if (going := engine.going_on()) is not None:
        notes().print("The run goes on; this command watches it.", soft_wrap=True)
        watch(study, engine, engine.follow(*going), as_json=as_json)
    elif study.finished:
        notes().print("The run has finished.", soft_wrap=True)
        show_result(study, as_json=as_json)
    else:
        _run(folder, "resume", wait, as_json=as_json)


@app.command("ping")
def ping(
    folder: Folder = HERE,
    rounds: Annotated[int, typer.Option("--rounds", help="How often.", min=1)] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure what a round costs between these machines, without data: a fit takes about ten."""
    study = _study(folder)
    pings = [event for event in happening_in(study, _engine(study), f"ping:{rounds}") if event["event"] == "ping"]
    if as_json:
        print_json([{name: event[name] for name in ("sites", "seconds", "failing")} for event in pings])
        return
    for event in pings:
        answered = ", ".join(event["sites"]) or "nobody"
        console().print(f"round {event['number']}: {event['seconds']:.1f} s, answered by {answered}", soft_wrap=True)
        for site, reason in event["failing"].items():
            console().print(visible(f"  {site}: {reason}"), soft_wrap=True)


@app.command("stop")
def stop(folder: Folder = HERE) -> None:
    """Stop the study's server. A run that goes on can be resumed later."""
    stopped = _engine(_study(folder)).stop()
    console().print("Stopped." if stopped else "It was not running.")


@app.command("serve")
def serve(folder: Folder = HERE) -> None:
    """Keep the study's server running until stopped, and go on with a run that was cut off: for service managers."""
    from signal import SIGHUP, SIGTERM, signal
    from threading import Event

    engine = _engine(_study(folder))
    from fedspca.study.serving import serve as keep_serving

    stop = Event()
    for number in (SIGTERM, SIGHUP):
        signal(number, lambda *_: stop.set())
    try:
        keep_serving(engine, lambda text: notes().print(text, soft_wrap=True), stop)
    except KeyboardInterrupt:
        notes().print("Stopped.")


@app.command("service")
def service(
    folder: Folder = HERE,
    account: Annotated[
        str | None, typer.Option("--account", help="A unit of the system, under this account; else one of yours.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that the unit is written into.")] = Path(),
) -> None:
    """Write a unit of systemd that keeps the study's server running, and say how to install it."""
    from fedspca.cli.open import write_service
    from fedspca.study.services import study_service

    study = _study(folder)
    write_service(study_service(study.path, study.settings.name, account), output)


@app.command("open")
def open_in_browser(
    folder: Folder = HERE,
    browser: Browser = True,
    port: Port = 0,
) -> None:
    """Show the study in the browser: who is here, how far the run is, and the report at the end."""

    def page() -> Any:
        from fedspca.study.page import CoordinatorPage

        return CoordinatorPage(_study(folder))

    show_page(page, browser=browser, port=port)


@app.command("remove")
def remove(
    folder: Annotated[Path, typer.Argument(help="The study's folder.", metavar="STUDY")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Stop a study and delete its folder: keys, invitations, what happened, and the model that is in it."""
    study = _study(folder)
    if not yes:
        model = " The model in it is deleted too; copy it first if you want it." if study.model.exists() else ""
        console().print(f"This deletes {study.path} with the keys of the study.{model}", soft_wrap=True)
        typer.confirm("Delete it?", abort=True)
    _engine(study).stop()
    rmtree(study.path)
    console().print(f"Removed: {study.path}", soft_wrap=True)


@app.command("simulate")
@settings_as_options(FitSettings, "data", "columns", "adjust", "fit")
def simulate(
    settings: dict[str, Any],
    files: Annotated[list[str], typer.Argument(help="The tables, one a site.", metavar="FILES...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new study's folder.")] = HERE,
    masked: Annotated[bool, typer.Option("--masked/--no-masked", help="Mask what sites send.")] = True,
    as_json: AsJson = False,
) -> None:
    """Try a study with all sites on this machine, in Flower's simulation engine: the same letters, masks and checks.

    For example:

      fedspca study simulate north.csv south.csv east.csv -r 2 --nonzero 10 -o trial
    """
    if find_spec("flwr") is None or find_spec("ray") is None:  # Flower itself would report this only in a log
        raise ValueError("A trial study needs Flower's simulation engine: pip install 'fedspca[simulation]'")
    from fedspca.flower.commands import free_port
    from fedspca.study.simulation import make_simulation

    fit = {about.name: settings.pop(about.name) for about in fields(SolverSettings) if about.name in settings}
    study = StudySettings(name=output.name, min_sites=min(3, len(files)), masked=masked, control_port=free_port())
    folder = make_simulation(output, study.with_given(fit), FitSettings(files=tuple(files)).with_given(settings))
    engine = _engine(folder, simulated=True)
    engine.start()
    try:
        follow(folder, engine, "run", as_json=as_json)
    finally:
        engine.stop()


def _study(folder: Path) -> "StudyFolder":
    from fedspca.study.coordinator import StudyFolder

    return StudyFolder(folder)


def _cautions(study: "StudyFolder", agreement: str) -> list[str]:
    """Return what a reader of the study's model must know first, such as a unit that may be wrong at some site."""
    if not study.finished:
        return []
    from fedspca.model import SparsePCAModel

    model = SparsePCAModel.load(study.model)
    return model.cautions() if model.facts.get("schema") == agreement else []


def _run(folder: Path, action: str, wait: float | None, *, as_json: bool) -> None:
    study = _study(folder)
    follow(study, _engine(study), action if wait is None else f"{action}:{wait:g}", as_json=as_json)


def _engine(study: "StudyFolder", *, simulated: bool = False) -> Any:
    try:
        from fedspca.study.engine import Engine
    except ImportError as error:
        raise ValueError(f"Studies between institutions need Flower ({error}): pip install 'fedspca[flower]'") from None
    return Engine(study, simulated=simulated)
