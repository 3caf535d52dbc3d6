"""A group of commands that are imported when one of them is run, so that help, version and completion cost little."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command


class Argument(TyperArgument):
    """An argument that keeps its help text.

    Flower allows typer up to 0.20 only. That typer sets the text before click does, and click 8.5 then empties it.
    """

    def __init__(self, *, help: str | None = None, **about: Any) -> None:
        super().__init__(help=help, **about)
        self.help = help


made_by: Any = typer.main
made_by.TyperArgument = Argument


class LazyGroup(TyperGroup):
    """Commands known by name and a sentence. A module is imported when its command is run or its options are shown.

    The command ``name`` is in the module ``fedspca.cli.name``: a function of that name, or a :class:`typer.Typer`
    called ``app`` for a group of commands.
    """

    sentences: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order in which they are stated."""
        return list(self.sentences)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return enough of a command to list it; :meth:`resolve_command` returns all of it."""
        sentence = self.sentences.get(cmd_name)
        return None if sentence is None else TyperCommand(cmd_name, help=sentence)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, imported now."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None else self._imported(str(command.name)), rest

    def _imported(self, name: str) -> Any:
        module = import_module(f"fedspca.cli.{name}")
        if hasattr(module, "app"):
            group = get_command(module.app)
            group.name = name
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name)(getattr(module, name))
        return get_command(alone)
