"""``fedspca check``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspca.cli.options import AsJson, Force, with_settings
from fedspca.cli.output import cells, console, print_json, print_table, table, visible
from fedspca.cli.words import in_options
from fedspca.data.columns import listed
from fedspca.files import new_file
from fedspca.fit.settings import FitSettings

if TYPE_CHECKING:
    from fedspca.data import Schema

DISAGREE = 1


@with_settings("data", "columns", "fit", "policy", without=("path", "covariance", "covariance_rows"))
def check(
    settings: FitSettings,
    against: Annotated[Path | None, typer.Option("--against", help="A schema that another site wrote.")] = None,
    write: Annotated[Path | None, typer.Option("--write", help="Write the schema, to send to other sites.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare sites before anything is computed: names, types, units and gaps.

    It takes the options of fedspca fit, and lists all that a fit with them would refuse.

    Ends with exit code 0 if the sites can be analysed together, and 1 if not.

    For example:

      fedspca check north.csv south.csv

      fedspca check north.csv --write schema.json

      fedspca check south.csv --against schema.json
    """
    from fedspca.data.schema import Schema
    from fedspca.fit.inputs import file_features

    schemas = {name: Schema.of(features) for name, features in file_features(settings).items()}
    agreed = {} if against is None else {f"{against}": _read_schema(against)}
    result = _compared(settings, {**agreed, **schemas})
    if write is not None:
        _write_schema(write, next(iter(schemas.values())), force=force)
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not result["agree"] or result["obstacles"]:
        raise typer.Exit(DISAGREE)


def _read_schema(path: Path) -> "Schema":
    from fedspca.data.schema import Schema
    from fedspca.federation.base import SchemaMismatch

    try:
        return Schema.from_json(path.read_text(encoding="utf-8"))
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{path}: {error}") from None


def _write_schema(path: Path, schema: "Schema", *, force: bool) -> None:
    if path.exists() and not force:
        raise FileExistsError(f"{path}: it is there already. Choose another name, or replace it with --force.")
    with new_file(path) as draft:
        draft.write_text(schema.to_json(), encoding="utf-8")


def _compared(settings: FitSettings, schemas: "dict[str, Schema]") -> dict[str, Any]:
    from fedspca.data.schema import differences

    found = differences(schemas)
    reference = next(iter(schemas))
    fatal = any(difference.fatal for difference in found)
    result: dict[str, Any] = {
        "agree": not fatal,
        "schemas": {name: {"features": len(schema.names), "hash": schema.hash} for name, schema in schemas.items()},
        "differences": [sentence for difference in found for sentence in difference.sentences(reference)],
        "obstacles": [],
        "oddities": [],
        "sites": {},
    }
    if fatal and not settings.common:
        return result
    return {**result, "agree": True, **_looked_at(settings)}


def _looked_at(settings: FitSettings) -> dict[str, Any]:
    """Return what the rows themselves show: what a fit would refuse, what is odd, and figures of each site."""
    import numpy as np

    from fedspca.data.profile import Profile, oddities
    from fedspca.fit.inputs import open_inputs
    from fedspca.fit.obstacles import obstacles

    inputs = open_inputs(settings)
    names = inputs.feature_names
    with np.errstate(all="ignore"):  # values that are infinite or too large are among the obstacles
        profiles = {site.site: Profile.of(site.rows) for site in inputs.sites}
    comparable = {name: profile for name, profile in profiles.items() if np.isfinite(profile.spread).all()}
    return {
        "obstacles": [in_options(sentence) for sentence in obstacles(settings, inputs)],
        "oddities": oddities(names, comparable),
        "told": list(inputs.told),
        "sites": {
            name: {
                "rows": profile.n_rows,
                "constant": [names[j] for j in profile.constant.nonzero()[0]],
                "missing": {names[j]: float(profile.missing[j]) for j in profile.missing.nonzero()[0]},
            }
            for name, profile in profiles.items()
        },
    }


def _print(result: dict[str, Any]) -> None:
    out = console()
    if result["sites"]:
        rows = table(("site", "left"), ("rows", "right"), ("with missing values", "left"))
        for name, site in result["sites"].items():
            gaps = [f"{feature} ({share:.0%})" for feature, share in site["missing"].items()]
            rows.add_row(*cells(name, f"{site['rows']:,}", listed(gaps, most=3, quote=False) if gaps else "none"))
        print_table(rows)
    told = [*result["differences"], *result.get("told", []), *result["oddities"], *result["obstacles"]]
    for sentence in dict.fromkeys(told):
        out.print(f"- {sentence[0].upper()}{visible(sentence[1:])}", soft_wrap=True)
    out.print(_verdict(result), soft_wrap=True)


def _verdict(result: dict[str, Any]) -> str:
    if not result["agree"]:
        return "The sites cannot be analysed together as they are. Correct the files, or use --common."
    if result["obstacles"]:
        return "The sites hold the same features, and a fit would be refused for what is said above."
    if result["oddities"]:
        return "The sites hold the same features. Look at what is said above before you fit."
    return "The sites hold the same features."
