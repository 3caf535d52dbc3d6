"""Pages of the documentation that come from the code: the commands, and every public name."""

import importlib
import inspect
from collections.abc import Iterator, Mapping

# what is public, by what it is for; each is a module and its names, or None for all of its ``__all__``
PUBLIC: Mapping[str, tuple[tuple[str, tuple[str, ...] | None], ...]] = {
    "Estimators": (("fedspca", ("ExactSPCA", "FASPCA", "FSSPCA", "SparsityPath", "Round", "StopReason", "StopFit")),),
    "Models, charts and reports": (
        ("fedspca", ("SparsePCAModel", "InvalidModel")),
        ("fedspca.plots", None),
        ("fedspca.report", None),
        ("fedspca.sc", ("spca",)),
    ),
    "Sites and federations": (("fedspca", None),),
    "Files and tables": (("fedspca.data", None), ("fedspca.fit", None)),
    "Metrics, partitions and the literature": (
        ("fedspca.metrics", None),
        ("fedspca.experiments.partitions", None),
        ("fedspca.literature", None),
    ),
}


def public_names() -> dict[str, list[str]]:
    """Return every public name, once, under its heading."""
    seen: set[str] = set()
    found: dict[str, list[str]] = {}
    first = {name for _, names in (part for parts in PUBLIC.values() for part in parts) if names for name in names}
    for heading, parts in PUBLIC.items():
        for module, names in parts:
            rest = [n for n in _exported(module) if n not in first or module != "fedspca"] if names is None else names
            for name in rest:
                full = f"{module}.{name}"
                if full not in seen and not name.startswith("__"):
                    seen.add(full)
                    found.setdefault(heading, []).append(full)
    return found


def _exported(module: str) -> list[str]:
    made = importlib.import_module(module)
    if hasattr(made, "__all__"):
        return list(made.__all__)
    return [
        name
        for name, value in vars(made).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module and callable(value)
    ]


def api_pages() -> dict[str, str]:
    """Return one page a heading, with the documentation of each name, and one that lists them."""
    pages, index = {}, ["# API reference", "", "Everything that is public, by what it is for.", ""]
    toctree = []
    for heading, names in public_names().items():
        file = heading.split(",")[0].split(" and ")[0].lower().replace(" ", "-")
        toctree.append(file)
        lines = [heading, "=" * len(heading), ""]
        for full in names:
            lines += _entry(full)
        pages[f"{file}.rst"] = "\n".join(lines)
        index += [f"- [{heading}]({file}.rst): " + ", ".join(f"`{full.rpartition('.')[2]}`" for full in names)]
    index += ["", "```{toctree}", ":hidden:", *toctree, "```", ""]
    pages["api.md"] = "\n".join(index)
    return pages


def _entry(full: str) -> list[str]:
    module, _, name = full.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    title = f"``{full}``"
    head = [title, "-" * len(title), ""]
    if inspect.isclass(value):
        return (
            [
                *head,
                f".. autoclass:: {full}",
                "   :members:",
                "   :inherited-members: object, str, int, BaseException",
                "",
            ]
            if not issubclass(value, BaseException)
            else [*head, f".. autoexception:: {full}", ""]
        )
    if inspect.isroutine(value):
        return [*head, f".. autofunction:: {full}", ""]
    return [*head, f".. autodata:: {full}", "   :no-value:", ""]


def cli_page() -> str:
    """Return a page of every command, its arguments and options, from the commands themselves."""
    lines = ["# Command line", "", "Every command, its arguments and its options. `--help` prints the same.", ""]
    for names, command in commands():
        lines += _command(names, command)
    return "\n".join(lines)


def commands() -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield every command with the words that call it."""
    import typer.main

    from fedspca.cli.app import app

    yield from _walk(("fedspca",), typer.main.get_command(app))


def _walk(names: tuple[str, ...], command: object) -> Iterator[tuple[tuple[str, ...], object]]:
    context = command.make_context(names[-1], [], resilient_parsing=True)
    listed = command.list_commands(context) if hasattr(command, "list_commands") else []
    for name in listed:
        _, part, _ = command.resolve_command(context, [name])  # all of it, and not only its sentence
        if hasattr(part, "list_commands"):
            yield from _walk((*names, name), part)
        else:
            yield (*names, name), part


def _command(names: tuple[str, ...], command: object) -> list[str]:
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    body, _, example = text.partition("For example:")
    lines = [f"## {' '.join(names)}", "", body.strip(), ""]
    if example.strip():
        lines += ["```sh", *(line.strip() for line in example.splitlines() if line.strip()), "```", ""]
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    return [*lines, "| | |", "| --- | --- |", *rows, ""]


def _row(parameter: object) -> str:
    options = [*parameter.opts, *parameter.secondary_opts]
    shown = (
        ", ".join(f"`{option}`" for option in options)
        if options[0].startswith("-")
        else f"`{parameter.human_readable_name}`"
    )
    told = (getattr(parameter, "help", None) or "").replace("\\[", "[").replace("|", "\\|").replace("<", "&lt;")
    return f"| {shown} | {told} |"
