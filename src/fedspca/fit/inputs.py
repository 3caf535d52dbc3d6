"""From files to sites: the features that they share, in one order, and the remarks for a reader."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.data.advice import advice
from fedspca.data.cells import told_of_cells
from fedspca.data.columns import Feature, choose, listed, shown
from fedspca.data.formats import how_read, is_workbook, open_table
from fedspca.data.prepare import SiteRows, read_sites
from fedspca.data.schema import Schema, agree
from fedspca.data.store import MemorySink
from fedspca.data.units import unlike_sites
from fedspca.data.urls import is_url, safe_url, source_name
from fedspca.fit.settings import FitSettings, SolverSettings
from fedspca.linalg.packed import PackedRows
from fedspca.linalg.profile import Profile
from fedspca.linalg.row_blocks import Rows
from fedspca.site import Policy, Site
from fedspca.site.errors import InvalidData, count
from fedspca.site.preparation import Design, Preparation, is_missing, level_text

SHOWN_ALONE = frozenset({"captured_variance", "deviations", "harmonised", "moments", "residuals", "weighted_moments"})
ENCODED_AT_ONCE = 1 << 16  # rows


@dataclass(frozen=True)
class Inputs:
    """The sites' rows over the features that they share.

    Attributes
    ----------
    feature_names : tuple of str
        The features, in the first site's order.
    sites : tuple of SiteRows
        Each site's rows.
    told : tuple of str
        Remarks: what was done so that the files fit together.
    schema : Schema
        The schema of the features.
    levels : mapping of str to tuple of str
        The levels of covariates that are categories.
    """

    feature_names: tuple[str, ...]
    sites: tuple[SiteRows, ...]
    told: tuple[str, ...]
    schema: Schema
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """Mean, spread and share missing at each site."""
        with np.errstate(all="ignore"):  # values that are infinite or too large are refused by a fit
            return {site.site: Profile.of(site.rows) for site in self.sites}

    @property
    def _measured(self) -> list[tuple[str, Rows]]:
        """The sites whose rows are no genotypes: those have no unit, and no row numbers among them."""
        return [(site.site, site.rows) for site in self.sites if not isinstance(site.rows, PackedRows)]

    @cached_property
    def oddities(self) -> tuple[str, ...]:
        """Sentences about columns that may be no measurements, and about sites that may have another unit."""
        measured = [name for name, _ in self._measured]
        usable = {name: self.profiles[name] for name in measured if np.isfinite(self.profiles[name].spread).all()}
        asked = advice(self.feature_names, self._measured)
        return (*asked, *unlike_sites(self.feature_names, usable))


def site_names(files: Sequence[str]) -> list[str]:
    """Name sites after their files or databases, with the shortest names that are all different."""
    names = [source_name(file) for file in files]
    stems = [_stem(name) for name in names]
    if len(set(stems)) == len(stems):
        return stems
    names = names if len(set(names)) == len(names) else [safe_url(file) for file in files]
    if len(set(names)) != len(names):
        raise InvalidData("The same file is given more than once; each file is a site of its own.")
    return names


def _stem(name: str) -> str:
    for packed in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(packed)
    return Path(name).stem


def file_features(settings: FitSettings) -> dict[str, tuple[Feature, ...]]:
    """Return the features of each file, by the file's name as a site."""
    if not settings.files:
        raise InvalidData("No file was given. Name one file a site, or one file with --site-column.")
    if settings.query is not None and not any(map(is_url, settings.files)):
        raise InvalidData(
            "--query asks a database, and files are given: all of their rows would be taken. Leave it out, or name the "
            "file in the query, as in duckdb:// --query \"SELECT * FROM 'rows.csv' WHERE year = 2024\"."
        )
    if settings.sheet is not None and not any(map(is_workbook, settings.files)):
        raise InvalidData("--sheet names a sheet of a workbook, and no file given is a workbook. Leave it out.")
    if idle := set(settings.levels) - set(settings.covariates):
        raise InvalidData(f"--levels has {listed(sorted(idle))}, which --adjust and --protect do not name.")
    tables = {
        name: open_table(file, settings.text_options())
        for name, file in zip(site_names(settings.files), settings.files, strict=True)
    }
    wanted = settings.columns()
    known = {column.name for table in tables.values() for column in table.columns}
    typed_right = known.issuperset({*wanted.exclude, *wanted.beside})
    found: dict[str, tuple[Feature, ...]] = {}
    refused: list[tuple[str, str]] = []
    for name, table in tables.items():
        try:
            here = wanted.kept_out_of(table.columns) if typed_right else wanted
            if getattr(table, "fixed_layout", False):  # its rows and columns cannot be swapped
                here = replace(here, max_features=max(here.max_features, len(table.columns)))
            found[name] = choose(table.where, table.columns, here, partial(told_of_cells, table))
        except InvalidData as error:
            refused.append((table.where, str(error)))
    if refused:  # all of them at once, rather than one for each attempt
        raise InvalidData(" ".join(told_once(refused)))
    return found


def told_once(told: Iterable[tuple[str, str]]) -> list[str]:
    """Return sentences about files, where what is said of several files in the same words is said once.

    Parameters
    ----------
    told : iterable of (str, str)
        The name of a file, and a sentence that begins with that name and a colon.
    """
    same: dict[str, list[str]] = {}
    for file, sentence in told:
        same.setdefault(sentence.removeprefix(f"{file}: "), []).append(file)
    return [f"{listed(files, most=20, quote=False)}: {what}" for what, files in same.items()]


def open_inputs(settings: FitSettings, owners: Mapping[str, str] | None = None) -> Inputs:
    """Read the files as sites that share their features.

    Parameters
    ----------
    settings : FitSettings
        The files, and what their columns are for.
    owners : mapping of str to str, optional
        Sites whose rows belong to another site, by name. If given, rows of one site in several files are put together.
    """
    chosen = file_features(settings)
    schemas = {name: Schema.of(features) for name, features in chosen.items()}
    names, told = agree(schemas, common=settings.common)
    sites: list[SiteRows] = []
    for (name, features), file in zip(chosen.items(), settings.files, strict=True):
        by_name = {feature.name: feature for feature in features}
        sites += read_sites(
            file,
            [by_name[feature] for feature in names],
            settings.columns(),
            name=name,
            options=settings.text_options(),
            cache=None if settings.cache is None else Path(settings.cache),
        )
    if owners is not None:
        sites = put_together([site._replace(site=owners.get(site.site, site.site)) for site in sites])
    every = [site.site for site in sites]
    if len(set(every)) != len(every):
        twice = sorted({name for name in every if every.count(name) > 1})
        raise InvalidData(f"More than one file holds rows of the site {twice[0]!r}. Put each site into one file.")
    sites, small = _large_enough(sites, settings)
    read = [(Path(file).name, how) for file in settings.files for how in how_read(file, settings.text_options())]
    told += [*told_once(read), *idle_renames(settings, chosen)]
    first = next(iter(schemas.values()))
    kinds = dict(zip(first.names, first.dtypes, strict=True))
    levels = levels_in(settings, sites)
    told += [*small, *_told_of_levels(settings, levels)]
    return Inputs(names, tuple(sites), tuple(told), Schema(names, tuple(kinds[name] for name in names)), levels)


def idle_renames(settings: FitSettings, chosen: Mapping[str, Sequence[Feature]]) -> list[str]:
    """Say which other names no file has for a feature: perhaps the two names of --rename were swapped.

    Parameters
    ----------
    settings : FitSettings
        Where names are renamed.
    chosen : mapping of str to sequence of Feature
        The features taken from each file.
    """
    columns = settings.columns()
    used = {feature.column for features in chosen.values() for feature in features}
    idle = [
        f"{name}={other}"
        for name, others in settings.rename.items()
        for other in others
        if other not in used and not {name, other} & {*columns.exclude, *columns.beside}
    ]
    if not idle:
        return []
    told = "no file has a feature with the name after the =, so that nothing was renamed. The name to use stands first"
    return [f"--rename {listed(idle, quote=False)}: {told}"]


def put_together(sites: Sequence[SiteRows]) -> list[SiteRows]:
    """Return each site once, with its rows from all files, in the order of the files."""
    by_site: dict[str, list[SiteRows]] = {}
    for each in sites:
        by_site.setdefault(each.site, []).append(each)
    return [parts[0] if len(parts) == 1 else _stacked(name, parts) for name, parts in by_site.items()]


def _stacked(name: str, parts: Sequence[SiteRows]) -> SiteRows:
    rows = [part.rows for part in parts if not isinstance(part.rows, np.memmap | PackedRows)]
    if len(rows) < len(parts):
        raise InvalidData(
            f"The rows of site {shown(name)} are too many to put together in memory. Append the new rows to the site's "
            "own file, and give that file."
        )
    sink = MemorySink()
    for each in rows:
        sink.add(each)
    beside = {about: np.concatenate([part.beside[about] for part in parts]) for about in parts[0].beside}
    return SiteRows(name, sink.finish(), beside)


def _large_enough(sites: list[SiteRows], settings: FitSettings) -> tuple[list[SiteRows], list[str]]:
    """Return the sites that hold enough rows, and a sentence about those left out, if small ones are to be."""
    small = [site for site in sites if site.rows.shape[0] < settings.min_rows] if settings.leave_out_small else []
    if not small:
        return sites, []
    if len(small) == len(sites):
        raise InvalidData(f"Every site holds fewer rows than the {settings.min_rows} of --min-rows; none is left.")
    named = listed([f"{shown(site.site)} ({count(site.rows.shape[0], 'row')})" for site in small], most=20, quote=False)
    kept = [site for site in sites if site.rows.shape[0] >= settings.min_rows]
    return kept, [f"left out, with fewer than {settings.min_rows} rows: {named}"]


def make_sites(settings: FitSettings, inputs: Inputs) -> list[Site]:
    """Return the sites, each with the policy of the settings; refuse what these policies would refuse."""
    if refused := beyond_policy(settings, inputs.sites):  # a policy cannot know of options
        raise ValueError(" ".join(refused))
    policy = Policy(min_rows=settings.min_rows, alone=SHOWN_ALONE if settings.show_sites else frozenset())
    shared: dict[str, Any] = {"feature_names": inputs.feature_names, "allow_missing": settings.max_missing > 0}
    preparation = Preparation.of(vars(replace(settings, levels=inputs.levels)))
    return [site_of(site, site.site, settings, preparation, policy=policy, **shared) for site in inputs.sites]


def beyond_policy(settings: FitSettings, sites: Sequence[SiteRows]) -> list[str]:
    """Return a sentence for each site that holds fewer rows than a fit asks for, and one about too many folds."""
    found = [f"--min-rows must be at least 1. Got {settings.min_rows} instead."] if settings.min_rows < 1 else []
    found += [
        f"Site {site.site!r} holds fewer rows than the {settings.min_rows} of --min-rows ({site.rows.shape[0]}): a sum "
        "over few rows says much about each. Leave the site out with --leave-out-small, or lower --min-rows."
        for site in sites
        if site.rows.shape[0] < settings.min_rows
    ]
    most = Policy().max_folds
    if settings.folds is not None and settings.folds > most:
        found.append(f"--folds must be at most {most}. Got {settings.folds} instead.")
    return found


def site_of(rows: SiteRows, name: str, settings: SolverSettings, preparation: Preparation, **about: Any) -> Site:
    """Return a site that sees its rows as a preparation says, with covariates and weights from its own columns."""
    design = preparation.design
    return Site(
        name,
        rows.rows,
        preparation=preparation,
        covariates=_encoded(design, f"Site {name!r}", rows) if design.terms else None,
        weights=None if settings.weight is None else rows.beside[settings.weight],
        **about,
    )


def _encoded(design: Design, where: str, rows: SiteRows) -> NDArray[np.float64]:
    """Return the columns of a design for a site's rows, block by block: encoding takes many times what it returns."""
    values = {name: rows.beside[name] for name in design.names}
    n = rows.rows.shape[0]
    found = np.empty((n, len(design.lines)))
    try:
        for start in range(0, n, ENCODED_AT_ONCE):
            part = slice(start, start + ENCODED_AT_ONCE)
            found[part] = design.encode(where, {name: column[part] for name, column in values.items()})
    except InvalidData:
        design.encode(where, values)  # raises with the number of the row and of all such rows
        raise
    return found


def levels_in(settings: FitSettings, sites: Sequence[SiteRows]) -> dict[str, tuple[str, ...]]:
    """Return the levels of the covariates that are texts: those agreed on, else all that the files have."""
    found = {name: tuple(levels) for name, levels in settings.levels.items()}
    for name in settings.covariates:
        columns = [site.beside[name] for site in sites]
        if name in found or not any(_holds_texts(column) for column in columns):
            continue
        present = {level_text(value) for column in columns for value in column if not is_missing(value)}
        found[name] = tuple(sorted(present))
    return found


def _holds_texts(column: Any) -> bool:
    """Whether a column holds something else than numbers, however these are stored."""
    if column.dtype != object:
        return False
    try:
        np.array([value for value in column if not is_missing(value)], dtype=object).astype(np.float64)
    except ValueError:
        return True
    return False


def _told_of_levels(settings: FitSettings, levels: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [
        f"{name!r} is taken out as a category with the levels {listed(found, most=8, quote=False)}; the first is what "
        "the others are compared with"
        for name, found in levels.items()
        if name not in settings.levels
    ]
