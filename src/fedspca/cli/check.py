"""``fedspca check``."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedspca.cli.options import AsJson, Force, with_settings
from fedspca.cli.output import cells, console, print_json, print_table, sentence, table, visible
from fedspca.cli.words import in_options
from fedspca.data.columns import listed
from fedspca.files import new_file
from fedspca.fit.settings import FitSettings

if TYPE_CHECKING:
    from fedspca.data import Schema
    from fedspca.data.advice import ColumnFacts

DISAGREE = 1
MOST = 40  # most features that are printed


@with_settings("data", "columns", "adjust", "fit", "policy", without=("path", "covariance", "covariance_rows"))
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
        "features": [],
    }
    if fatal and not settings.common:
        return result
    return {**result, "agree": True, **_looked_at(settings)}


def _looked_at(settings: FitSettings) -> dict[str, Any]:
    """Return what the rows themselves show: what a fit would refuse, what is odd, and figures of each site."""
    from fedspca.data.advice import column_facts
    from fedspca.fit.inputs import open_inputs
    from fedspca.fit.obstacles import obstacles, seen_together, unused

    inputs = open_inputs(settings)
    names = inputs.feature_names
    refused = [in_options(each) for each in obstacles(settings, inputs)]
    return {
        "obstacles": refused,
        "oddities": [
            *inputs.oddities,
            *map(in_options, unused(settings, names)),
            *([] if refused else seen_together(settings, inputs)),
        ],
        "told": list(inputs.told),
        "sites": {
            name: {
                "rows": profile.n_rows,
                "constant": [names[j] for j in profile.constant.nonzero()[0]],
                "missing": {names[j]: float(profile.missing[j]) for j in profile.missing.nonzero()[0]},
            }
            for name, profile in inputs.profiles.items()
        },
        "features": _joint_columns([list(column_facts(names, site.rows)) for site in inputs.sites]),
    }


def _joint_columns(sites: "list[list[ColumnFacts]]") -> list[dict[str, Any]]:
    """Return what is seen of each feature over all sites: values, range, share missing, and whether it is odd."""
    joint = []
    for column in zip(*sites, strict=True):
        count = sum(facts.count for facts in column)
        ends = [*(facts.least for facts in column), *(facts.largest for facts in column)]
        finite = [end for end in ends if math.isfinite(end)]
        joint.append(
            {
                "feature": column[0].name,
                "count": count,
                "range": [min(finite), max(finite)] if finite else None,
                "missing": 1 - count / max(sum(facts.rows for facts in column), 1),
                "odd": next((facts.odd.one for facts in column if facts.odd), None),
            }
        )
    return joint


def _print(result: dict[str, Any]) -> None:
    out = console()
    if result["sites"]:
        rows = table(("site", "left"), ("rows", "right"), ("with missing values", "left"))
        for name, site in result["sites"].items():
            gaps = [f"{feature} ({share:.0%})" for feature, share in site["missing"].items()]
            rows.add_row(*cells(name, f"{site['rows']:,}", listed(gaps, most=3, quote=False) if gaps else "none"))
        print_table(rows)
        out.print()
        _print_features(result["features"])
    told = [*result["differences"], *result.get("told", []), *result["oddities"], *result["obstacles"]]
    for each in dict.fromkeys(told):
        out.print(f"- {visible(sentence(each))}", soft_wrap=True)
    out.print(_verdict(result), soft_wrap=True)


def _print_features(features: list[dict[str, Any]]) -> None:
    """Print each feature with what is seen of it; of many, those that are odd or incomplete come first."""
    rows = table(
        ("feature", "left"), ("values", "right"), ("from", "right"), ("to", "right"), ("missing", "right"), ("", "")
    )
    ordered = (
        sorted(features, key=lambda seen: (not seen["odd"], -seen["missing"])) if len(features) > MOST else features
    )
    for seen in ordered[:MOST]:
        ends = [f"{end:.6g}" for end in seen["range"]] if seen["range"] else ["-", "-"]
        rows.add_row(
            *cells(seen["feature"], f"{seen['count']:,}", *ends, f"{seen['missing']:.1%}", "odd" if seen["odd"] else "")
        )
    print_table(rows)
    if len(features) > MOST:
        console().print(f"… and {len(features) - MOST:,} more features; --json has all.")


def _verdict(result: dict[str, Any]) -> str:
    if not result["agree"]:
        return "The sites cannot be analysed together as they are. Correct the files, or use --common."
    if result["obstacles"]:
        return "The sites hold the same features, and a fit would be refused for what is said above."
    if result["oddities"]:
        return "The sites hold the same features. Look at what is said above before you fit."
    return "The sites hold the same features."
