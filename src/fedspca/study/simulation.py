"""A study between institutions that are all on this machine: for research, and to test a study in advance."""

import shutil
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from fedspca.door.endpoint import Endpoint
from fedspca.door.replay import Replays
from fedspca.files import new_file
from fedspca.fit.inputs import site_names
from fedspca.fit.settings import FitSettings
from fedspca.fit.template import toml_value
from fedspca.site import Site
from fedspca.site.preparation import columns_beside
from fedspca.study.coordinator import StudyFolder
from fedspca.study.owner import SiteFolder
from fedspca.study.settings import StudySettings


def make_simulation(path: Path, study: StudySettings, data: FitSettings) -> StudyFolder:
    """Make the coordinator's folder and, inside it, a folder for each file's site, whose owner approves.

    Parameters
    ----------
    path : Path
        The new folder.
    study : StudySettings
        What is to be fitted, and how sites talk to each other. Its sites are those of the data.
    data : FitSettings
        The tables, one a site, and what their columns are for.
    """
    names = site_names(data.files)
    folder = StudyFolder.create(path, study.with_given({"sites": tuple(names)}))
    try:
        _add_sites(folder, names, study, data)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # a study without its sites is useless
        raise
    return folder


def _add_sites(folder: StudyFolder, names: list[str], study: StudySettings, data: FitSettings) -> None:
    """Make each site's folder, exchange the papers, and approve."""
    sites = []
    data = replace(data, exclude=(*data.exclude, *columns_beside(study.fit_settings())))
    for name, file in zip(names, data.files, strict=True):
        site = SiteFolder.create(folder.path / "sites" / name, replace(data, files=(file,)))
        # the lowest limits that the study needs: all data here belong to one researcher
        allowed = {"min_rows": 1, "min_sites": study.min_sites, "masking": study.masked}
        with new_file(site.path / "policy.toml") as draft:
            lines = (f"{name} = {toml_value(value)}\n" for name, value in allowed.items())
            draft.write_text("".join(lines), encoding="utf-8")
        site.join(folder.path / "invitations" / f"{name}.invitation")
        folder.admit(site.reply_file(name))
        sites.append(site)
    agreement = folder.agreement()
    for site in sites:
        site.store.propose(agreement)
        site.store.approve(agreement)


def endpoints(folder: StudyFolder) -> dict[str, Endpoint]:
    """Return the doors of all sites of a simulation, by name."""
    return {path.parent.name: SiteFolder(path.parent).endpoint() for path in _sites(folder.path)}


def endpoint_of(path: Path, number: int) -> Endpoint:
    """Return the door of the site that a node of the simulation engine stands for.

    Different processes of the engine may handle the messages of one node. So the state of the rounds is read again for
    each message. The rows are not read again, and the site's own run of the study continues from the last sum that this
    process has seen.
    """
    folder = _sites(path)[number].parent
    return SiteFolder(folder).endpoint(site=_opened(folder), replays=_replays(folder))


@lru_cache(maxsize=64)
def _opened(folder: Path) -> Site:
    return SiteFolder(folder).open_site()


@lru_cache(maxsize=64)
def _replays(folder: Path) -> Replays:
    return SiteFolder(folder).replays()


def _sites(path: Path) -> list[Path]:
    return sorted((path / "sites").glob("*/site.toml"))
