"""``fedspca study``: the coordinator's commands."""

from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspca.cli.fit import INTERRUPTED
from fedspca.cli.options import AsJson, settings_as_options
from fedspca.cli.output import cells, console, notes, print_json, print_table, table, visible
from fedspca.cli.show import print_loadings, summary
from fedspca.fit.settings import FitSettings, SolverSettings
from fedspca.study.settings import StudySettings

if TYPE_CHECKING:
    from fedspca.study.coordinator import StudyFolder

app = typer.Typer(
    help="Lead a study between institutions: data stay where they are.",
    add_completion=False,  # the fedspca command has it
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Folder = Annotated[Path, typer.Argument(help="The study's folder.", metavar="[STUDY]")]
HERE = Path("study")
Wait = Annotated[float, typer.Option("--wait", help="Seconds to wait for sites that are not here yet.")]


@app.command("init")
@settings_as_options(StudySettings, "study", "fit", "federation", "privacy")
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


@app.command("status")
def status(folder: Folder = HERE, as_json: AsJson = False) -> None:
    """Send the agreement to the sites. Show who is connected, whose data fit, and who has approved."""
    from fedspca.letters.identity import fingerprint

    study = _study(folder)
    agreement, engine = study.agreement(), _engine(study)
    said: Mapping[str, str] = dict.fromkeys(agreement.sites, "the study is not started")
    if engine.runs:
        for event in _happening(study, engine, "status"):
            said = event.get("said", said)
    if as_json:
        print_json({"study": agreement.study, "agreement": agreement.hash, "sites": said})
        return
    shown = table(("site", "left"), ("state", "left"), ("key", "left"))
    for site, state in said.items():
        shown.add_row(*cells(site, state, fingerprint(agreement.sites[site])))
    print_table(shown)
    ready = all(state == "approved" for state in said.values())
    features = f"{len(agreement.features)} features agreed. " if said else ""
    then = f"Run it: fedspca study run {folder}" if ready else "Owners approve with: fedspca site approve"
    if not engine.runs:
        then = f"Start it: fedspca study start {folder}"
    console().print(f"{features}{then}", soft_wrap=True)


@app.command("run")
def run(folder: Folder = HERE, wait: Wait = 0.0, as_json: AsJson = False) -> None:
    """Fit the components over all sites. The result is the folder `model` in the study's."""
    _run(folder, "run", wait, as_json=as_json)


@app.command("resume")
def resume(folder: Folder = HERE, wait: Wait = 0.0, as_json: AsJson = False) -> None:
    """Go on with a run that was stopped, whatever stopped it. What sites answered is not asked again."""
    _run(folder, "resume", wait, as_json=as_json)


@app.command("ping")
def ping(
    folder: Folder = HERE,
    rounds: Annotated[int, typer.Option("--rounds", help="How often.", min=1)] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure what a round costs between these machines, without data: a fit takes about ten."""
    study = _study(folder)
    pings = [event for event in _happening(study, _engine(study), f"ping:{rounds}") if event["event"] == "ping"]
    if as_json:
        print_json([{"sites": event["sites"], "seconds": event["seconds"]} for event in pings])
        return
    for event in pings:
        answered = ", ".join(event["sites"]) or "nobody"
        console().print(f"round {event['number']}: {event['seconds']:.1f} s, answered by {answered}", soft_wrap=True)


@app.command("stop")
def stop(folder: Folder = HERE) -> None:
    """Stop the study's server. A run that goes on can be resumed later."""
    stopped = _engine(_study(folder)).stop()
    console().print("Stopped." if stopped else "It was not running.")


@app.command("simulate")
@settings_as_options(FitSettings, "data", "columns", "fit")
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
    if find_spec("flwr") is None or find_spec("ray") is None:  # Flower itself would say so in a log only
        raise ValueError("A trial study needs Flower's simulation engine: pip install 'fedspca[simulation]'")
    from fedspca.flower.commands import free_port
    from fedspca.study.simulation import make_simulation

    fit = {about.name: settings.pop(about.name) for about in fields(SolverSettings) if about.name in settings}
    study = StudySettings(name=output.name, min_sites=min(3, len(files)), masked=masked, control_port=free_port())
    folder = make_simulation(output, study.with_given(fit), FitSettings(files=tuple(files)).with_given(settings))
    engine = _engine(folder, simulated=True)
    engine.start()
    try:
        _follow(folder, engine, "run", as_json=as_json)
    finally:
        engine.stop()


def _study(folder: Path) -> "StudyFolder":
    from fedspca.study.coordinator import StudyFolder

    return StudyFolder(folder)


def _run(folder: Path, action: str, wait: float, *, as_json: bool) -> None:
    study = _study(folder)
    _follow(study, _engine(study), f"{action}:{wait:g}", as_json=as_json)


def _follow(study: "StudyFolder", engine: Any, action: str, *, as_json: bool) -> None:
    """Begin an action, tell what happens, and show what came of it."""
    failed = f"The run ended without a result; the end of {engine.log} may say why."
    if not engine.simulated:
        failed += f" Try: fedspca study resume {study.path}"
    try:
        for event in _happening(study, engine, action):
            _show(event)
            if event["event"] == "done":
                failed = ""
            elif event["event"] == "failed":
                failed = event["error"]
    except KeyboardInterrupt:
        told = f"The run goes on without you. Stop it with: fedspca study stop {study.path}"
        notes().print(f"\n{told}", soft_wrap=True)
        if as_json:
            print_json({"error": told})
        raise typer.Exit(INTERRUPTED) from None
    if failed:
        raise ValueError(failed)
    from fedspca.model import SparsePCAModel

    model = SparsePCAModel.load(study.model)
    if as_json:
        print_json({**summary(model), "model": str(study.model)})
        return
    print_loadings(model, top=8)
    console().print(f"\nThe model is in {study.model}. Write a report: fedspca report {study.model}", soft_wrap=True)


def _happening(study: "StudyFolder", engine: Any, action: str) -> Any:
    from fedspca.study.engine import end_of_events

    start = end_of_events(study)
    return engine.follow(engine.begin(action), start)


def _show(event: Mapping[str, Any]) -> None:
    if event["event"] == "round":
        objective = "" if event["objective"] is None else f", objective {event['objective']:.6g}"
        text = f"round {event['number']}: {event['query']}, {event['seconds']:.1f} s{objective}"
    elif event["event"] == "sites":
        text = "; ".join(f"{site}: {state}" for site, state in event["said"].items())
    elif event["event"] == "notice":
        text = event["text"]
    else:
        return
    notes().print(visible(text), soft_wrap=True)


def _engine(study: "StudyFolder", *, simulated: bool = False) -> Any:
    try:
        from fedspca.study.engine import Engine
    except ImportError as error:
        raise ValueError(f"Studies between institutions need Flower ({error}): pip install 'fedspca[flower]'") from None
    return Engine(study, simulated=simulated)
