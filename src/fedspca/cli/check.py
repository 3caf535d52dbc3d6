"""``fedspca check``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedspca.cli.options import AsJson, Force, with_settings
from fedspca.cli.output import cells, console, print_json, print_table, table
from fedspca.data import Schema, differences
from fedspca.data.columns import listed
from fedspca.data.profile import Profile, oddities
from fedspca.federation.base import SchemaMismatch
from fedspca.files import new_file
from fedspca.fit import FitSettings, open_inputs
from fedspca.fit.inputs import file_features, make_sites

DISAGREE = 1


@with_settings("data", "columns")
def check(
    settings: FitSettings,
    against: Annotated[Path | None, typer.Option("--against", help="A schema that another site wrote.")] = None,
    write: Annotated[Path | None, typer.Option("--write", help="Write the schema, to send to other sites.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare sites before anything is computed: whether they hold the same features, in the same units.

    Ends with exit code 0 if they can be analysed together, and 1 if not.

    For example:

      fedspca check north.csv south.csv

      fedspca check north.csv --write schema.json

      fedspca check south.csv --against schema.json
    """
    schemas = {name: Schema.of(features) for name, features in file_features(settings).items()}
    agreed = {} if against is None else {f"{against}": _read_schema(against)}
    result = _compared(settings, {**agreed, **schemas})
    if write is not None:
        _write_schema(write, next(iter(schemas.values())), force=force)
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not result["agree"]:
        raise typer.Exit(DISAGREE)


def _read_schema(path: Path) -> Schema:
    try:
        return Schema.from_json(path.read_text(encoding="utf-8"))
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{path}: {error}") from None


def _write_schema(path: Path, schema: Schema, *, force: bool) -> None:
    if path.exists() and not force:
        raise FileExistsError(f"{path}: it is there already. Choose another name, or replace it with --force.")
    with new_file(path) as draft:
        draft.write_text(schema.to_json(), encoding="utf-8")


def _compared(settings: FitSettings, schemas: dict[str, Schema]) -> dict[str, Any]:
    found = differences(schemas)
    reference = next(iter(schemas))
    fatal = any(difference.fatal for difference in found)
    result: dict[str, Any] = {
        "agree": not fatal,
        "schemas": {name: {"features": len(schema.names), "hash": schema.hash} for name, schema in schemas.items()},
        "differences": [sentence for difference in found for sentence in difference.sentences(reference)],
        "oddities": [],
        "sites": {},
    }
    if fatal and not settings.common:
        return result
    inputs = open_inputs(settings)
    make_sites(settings, inputs)  # refuses, by name, values that no site can use
    profiles = {site.site: Profile.of(site.rows) for site in inputs.sites}
    result["agree"] = True if settings.common else not fatal
    result["oddities"] = oddities(inputs.feature_names, profiles)
    result["told"] = list(inputs.told)
    result["sites"] = {
        name: {
            "rows": profile.n_rows,
            "constant": [inputs.feature_names[j] for j in profile.constant.nonzero()[0]],
            "missing": {inputs.feature_names[j]: float(profile.missing[j]) for j in profile.missing.nonzero()[0]},
        }
        for name, profile in profiles.items()
    }
    return result


def _print(result: dict[str, Any]) -> None:
    out = console()
    if result["sites"]:
        rows = table(("site", "left"), ("rows", "right"), ("with missing values", "left"))
        for name, site in result["sites"].items():
            gaps = [f"{feature} ({share:.0%})" for feature, share in site["missing"].items()]
            rows.add_row(*cells(name, f"{site['rows']:,}", listed(gaps, most=3, quote=False) if gaps else "none"))
        print_table(rows)
    for sentence in dict.fromkeys([*result["differences"], *result.get("told", []), *result["oddities"]]):
        out.print(f"- {sentence[0].upper()}{sentence[1:]}", soft_wrap=True)
    if not result["agree"]:
        out.print(
            "The sites cannot be analysed together as they are. Correct the files, or use --common.", soft_wrap=True
        )
    elif result["oddities"]:
        out.print("The sites hold the same features. Look at what is said above before you fit.", soft_wrap=True)
    else:
        out.print("The sites hold the same features.")
