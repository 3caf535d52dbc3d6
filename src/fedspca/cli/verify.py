"""``fedspca verify``."""

from pathlib import Path
from typing import Annotated

import typer

from fedspca.cli.options import AsJson
from fedspca.cli.output import console, print_json, visible


def verify(
    bundle: Annotated[Path, typer.Argument(help="The folder 'bundle' of a finished study.", metavar="BUNDLE")],
    log: Annotated[
        list[str] | None, typer.Option("--log", help="SITE=FILE: also check the log that a site's owner gave you.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a finished study offline: agreement, signatures, questions, sums, ledger, model and logs.

    The exit code is 0 if all holds, and 1 if not.

    For example:

      fedspca verify trial/bundle

      fedspca verify bundle --log north=log.jsonl
    """
    from fedspca.study.verify import verify as verified

    findings = verified(bundle, dict(_site_and_file(text) for text in log or []))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for name, holds, told in findings:
            console().print(f"{'ok    ' if holds else 'FAILED'} {name}: {visible(told)}", soft_wrap=True)
    if not all(finding.holds for finding in findings):
        raise typer.Exit(1)


def _site_and_file(text: str) -> tuple[str, Path]:
    site, _, file = text.partition("=")
    if not (site and file):
        raise ValueError(f"--log takes SITE=FILE, for example --log north=log.jsonl. Got {text!r}.")
    return site, Path(file)
