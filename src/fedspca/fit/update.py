"""A model that goes on living: fit it again to its rows and new ones, from where it ended.

A model folder holds no rows, so the files of the model are read again, where they are. The new fit asks first what the
old one knew, and one to three rounds are left where the rows are much alike. Whoever has both models can compare them:
what differs comes from the added rows. So ``min_rows`` applies to the added rows of each site, not only to all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedspca.data.columns import listed, shown
from fedspca.fit.inputs import Inputs, open_inputs, site_names
from fedspca.fit.run import Callback, fit_files
from fedspca.fit.settings import FitSettings
from fedspca.model import SparsePCAModel
from fedspca.site.errors import InvalidData, count


@dataclass(frozen=True)
class Update:
    """What an update of a model is to be fitted to.

    Attributes
    ----------
    model : SparsePCAModel
        The model as it was.
    settings : FitSettings
        Its settings, with all files, old and new.
    inputs : Inputs
        All rows, over the model's features.
    added : mapping of str to int
        How many rows each site adds by new files. What a file adds that takes the place of another is not known.
    """

    model: SparsePCAModel
    settings: FitSettings
    inputs: Inputs
    added: Mapping[str, int]

    def told(self) -> list[str]:
        """Say what was added, and what whoever has both models can tell."""
        each = ", ".join(f"{n} of {shown(site)}" for site, n in self.added.items())
        rows = sum(site.rows.shape[0] for site in self.inputs.sites)
        added = f" (added: {each})" if each else ""
        before = "" if self.model.weighted else f" from {self.model.n_samples:g} rows"
        said = [f"the model was updated{before} to {rows}{' rows' if self.model.weighted else ''}{added}"]
        if len(self.added) == 1 and self.model.n_sites > 1:
            said.append("only one site added rows: whoever has both models can tell sums over that site's new rows")
        return said


def open_update(
    model: SparsePCAModel,
    files: Sequence[str],
    *,
    folder: Path = Path(),
    site: str | None = None,
    min_rows: int | None = None,
) -> Update:
    """Read the files of a model again, and the new ones.

    Parameters
    ----------
    model : SparsePCAModel
        A model that was fitted to files.
    files : sequence of str
        The new files. A file with the name of one of the model's takes its place.
    folder : Path
        Where the model's own files are.
    site : str, optional
        The site of the model that the rows of the new files belong to; by default each new file is a new site.
    min_rows : int, optional
        The fewest rows that a site may add; by default the ``min_rows`` of the fit.
    """
    before = settings_of(model)
    if min_rows is not None:
        before = replace(before, min_rows=min_rows)
    old = _found_again(before.files, files, folder)
    settings = replace(before, files=(*old, *files))
    names = dict(zip(settings.files, site_names(settings.files), strict=True))
    if site is not None and before.site_column is not None:
        raise InvalidData(f"The sites are named by the column {shown(before.site_column)}. Leave out --site.")
    known = sorted({*model.facts.get("site_names", ()), *(names[file] for file in old)})  # one may be too small so far
    if site is not None and site not in known:
        raise InvalidData(
            f"The model has no site {shown(site)}; it has {listed(known, most=20)}. For a new site leave out --site: "
            "each file is then a site with the name of the file."
        )
    owners = {} if site is None else {names[file]: site for file in files}
    inputs = open_inputs(settings, owners)
    if inputs.feature_names != model.feature_names:
        raise InvalidData(_other_features(model.feature_names, inputs.feature_names))
    added = _added(replace(settings, files=old), inputs) if len(old) == len(before.files) else {}
    _check_added(model, inputs, added, settings.min_rows)
    return Update(model, settings, inputs, added)


def fit_update(update: Update, *, callback: Callback | None = None) -> SparsePCAModel:
    """Fit to all rows, from where the model ended."""
    model = fit_files(update.settings, inputs=update.inputs, earlier=update.model.earlier, callback=callback)
    facts = {"told": [*model.facts["told"], *update.told()], "added": dict(update.added)}
    return replace(model, facts={**model.facts, **facts})


def settings_of(model: SparsePCAModel) -> FitSettings:
    """Return the settings with which a model was fitted to files; refuse a model of something else."""
    kept = model.facts.get("study", {})
    if model.facts.get("institutions") is not None:
        raise ValueError("The model is of a study between institutions. Update it there: fedspca study run --update")
    if kept.get("covariance") is not None or not kept.get("files"):
        raise ValueError("The model was not fitted to files of rows, so there is nothing to add rows to.")
    known = {about.name for about in fields(FitSettings)}
    return FitSettings(**{name: _hashable(value) for name, value in kept.items() if name in known})


def _hashable(value: Any) -> Any:
    """Return a setting as it was before it was JSON: lists are tuples."""
    if isinstance(value, dict):
        return {key: _hashable(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _found_again(names: Sequence[str], files: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the files of the model, except those that the new files take the place of."""
    given = {Path(file).name for file in files}
    left = [name for name in names if name not in given]
    if len(set(left)) != len(left):
        raise InvalidData("The model has several files of the same name, in different folders. Name all files.")
    missing = [name for name in left if not (folder / name).exists()]
    if missing:
        raise InvalidData(
            f"A model holds no rows, and its own files are read again. {listed(missing)}: not found in {folder}. Say "
            "where with --data, or name all files."
        )
    return tuple(str(folder / name) for name in left)


def _added(old: FitSettings, inputs: Inputs) -> dict[str, int]:
    """Return how many rows each site has beyond those in the files that were there before."""
    before = {each.site: each.rows.shape[0] for each in open_inputs(old, {}).sites}
    now = {each.site: each.rows.shape[0] for each in inputs.sites}
    return {site: n - before.get(site, 0) for site, n in now.items() if n != before.get(site, 0)}


def _check_added(model: SparsePCAModel, inputs: Inputs, added: Mapping[str, int], least: int) -> None:
    """Refuse few added rows: the difference of the two models would tell of each of them."""
    why = "The difference of the two models would say much about each."
    for site, n in added.items():
        if n < least:
            raise ValueError(
                f"Site {shown(site)} adds fewer rows than the {least} of --min-rows ({n}). {why} Wait for more "
                "rows, or lower --min-rows."
            )
    changed = abs(sum(each.rows.shape[0] for each in inputs.sites) - round(model.n_samples))
    if model.preparation.counts_rows and 0 < changed < least:
        raise ValueError(
            f"The files hold {count(changed, 'row')} more or fewer than the model had, and --min-rows is {least}. "
            f"{why} Wait for more rows, or lower --min-rows."
        )


def _other_features(before: Sequence[str], now: Sequence[str]) -> str:
    lacking = [name for name in before if name not in set(now)]
    more = [name for name in now if name not in set(before)]
    told = [f"the model has {listed(lacking)}, and the files have not"] if lacking else []
    told += [f"the files have {listed(more)}, and the model has not"] if more else []
    return f"An update keeps the features of the model: {'; '.join(told) or 'they come in another order'}. Fit anew."
