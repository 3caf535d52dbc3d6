"""A model as a folder: a manifest in JSON beside arrays of numbers.

What may never change:

- A folder holds numbers and text only. Nothing in it is executed, and no pickle is opened.
- The same fit gives the same bytes, and the folder appears only when it is complete.
- Every file has a checksum, and every number is checked before it is used: a folder that is damaged is refused.
- A version that does not know a model's format refuses the model. An older format stays readable.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedspca._version import __version__
from fedspca.files import new_folder
from fedspca.site.preparation import Preparation

if TYPE_CHECKING:
    from fedspca.model.model import SparsePCAModel

Array = NDArray[np.float64]

FORMAT = "fedspca-model"
FORMAT_VERSION = 1
PREPARED_VERSION = 2  # models with covariates or a site's own mean; older versions must refuse them
COMBAT_VERSION = 3  # models with site effects taken out by ComBat, or a transform that needed all sites
VERSIONS = (FORMAT_VERSION, PREPARED_VERSION, COMBAT_VERSION)
MANIFEST = "manifest.json"
DAMAGED = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
    EOFError,
    MemoryError,
)

ADJUSTMENT = ("covariate_mean", "coefficients")
MAPS = ("knots", "images", "count_shares", "clip")
GAPS = ("gap_scale", "gap_loadings", "gap_noise")
REFERENCE = ("reference_mean", "reference_spread")
BESIDE = ("basis", "patterns", "uniqueness")
ARRAYS = (
    "components",
    "mean",
    "scale",
    "explained_variance",
    "explained_variance_ratio",
    "missing_share",
    "covariance",
)
NUMBERS = ("n_samples", "n_sites", "total_variance")


class InvalidModel(ValueError):
    """A folder that is not a model, is damaged, or is of a format that this version does not know."""


def write(model: "SparsePCAModel", folder: Path, *, overwrite: bool) -> None:
    """Write a model as a folder, which appears only when it is complete."""
    check_free(folder, overwrite=overwrite)
    with new_folder(folder) as draft:
        draft.chmod(0o755)  # a model is to be shared; the folder's parents decide with whom
        stored = {}
        for name in _stored(model):
            array = model.maps[name] if name in model.maps else getattr(model, name)
            np.save(draft / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
            stored[name] = checksum((draft / f"{name}.npy").read_bytes())
        content = {
            "format": FORMAT,
            "format_version": _format_version(model),
            "fedspca_version": __version__,
            "arrays": stored,
            **{name: getattr(model, name) for name in NUMBERS},
            "feature_names": list(model.feature_names),
            "facts": dict(model.facts),
        }
        content["checksum"] = checksum(canonical(content))
        text = json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
        (draft / MANIFEST).write_text(text, encoding="ascii")


def _format_version(model: "SparsePCAModel") -> int:
    if model.reference is not None or model.maps:
        return COMBAT_VERSION
    return PREPARED_VERSION if "preparation" in model.facts else FORMAT_VERSION


def _stored(model: "SparsePCAModel") -> tuple[str, ...]:
    adjustment = () if model.coefficients is None else ADJUSTMENT
    reference = () if model.reference_mean is None else REFERENCE
    beside = [name for name in BESIDE if getattr(model, name) is not None]
    return (*ARRAYS, *adjustment, *reference, *beside, *model.maps)


def read(folder: Path) -> dict[str, Any]:
    """Return the parts of the model in a folder, or raise an :class:`InvalidModel` that says why there are none."""
    try:
        return _parts(folder)
    except InvalidModel:
        raise
    except (*DAMAGED, OSError) as error:  # a file with a valid checksum may still hold nonsense
        raise InvalidModel(f"{folder}: the model is damaged ({type(error).__name__}).") from None


def _parts(folder: Path) -> dict[str, Any]:
    content = _manifest(folder)
    optional = (*ADJUSTMENT, *REFERENCE, *BESIDE, *MAPS, *GAPS)
    more = [name for name in optional if name in content["arrays"]]
    arrays = {name: _stored_array(folder, name, content["arrays"].get(name)) for name in (*ARRAYS, *more)}
    names = tuple(content["feature_names"])
    if not all(isinstance(name, str) for name in names) or not isinstance(content["facts"], dict):
        raise InvalidModel(f"{folder}: the names or facts of this model are not as fedspca writes them.")
    shapes = _shapes(arrays, Preparation.of(content["facts"].get("preparation", {})))
    if len(names) != shapes["mean"][0] or any(arrays[name].shape != shape for name, shape in shapes.items()):
        raise InvalidModel(f"{folder}: the arrays of this model do not fit together.")
    numbers = {name: content[name] for name in NUMBERS}
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers.values()):
        raise InvalidModel(f"{folder}: the numbers of this model are not as fedspca writes them.")
    maps = {name: arrays.pop(name) for name in (*MAPS, *GAPS) if name in arrays}
    return {**arrays, **numbers, "maps": maps, "feature_names": names, "facts": content["facts"]}


def _shapes(arrays: Mapping[str, Array], prepared: Preparation) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the arrays of a model must have to fit together."""
    r, d = arrays["components"].shape if arrays["components"].ndim == 2 else (0, 0)
    shapes: dict[str, tuple[int, ...]] = {"components": (r, d), "covariance": (r, r), "explained_variance": (r,)}
    shapes |= {"explained_variance_ratio": (r,), "mean": (d,), "scale": (d,), "missing_share": (d,)}
    if "basis" in arrays:
        shapes["basis"] = (d, min(arrays["basis"].size // max(d, 1), d))
    shapes |= {name: shape for name, shape in (("patterns", (r, d)), ("uniqueness", (d,))) if name in arrays}
    if p := len(prepared.design.lines):
        shapes |= {"covariate_mean": (p,), "coefficients": (p, d)}
    if prepared.combat:
        shapes |= {"reference_mean": (d,), "reference_spread": (d,)}
    if prepared.joint is not None:
        shapes |= _map_shapes(prepared.joint[0], d, arrays)
    if "gap_loadings" in arrays:
        q = arrays["gap_loadings"].size // max(d, 1)
        shapes |= {"gap_scale": (d,), "gap_loadings": (d, q), "gap_noise": (1,)}
    return shapes


def _map_shapes(name: str, d: int, arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a transform that needed all sites."""
    if name == "pearson":
        return {"count_shares": (d,), "clip": (1,)}
    return {"knots": (len(arrays["knots"]), d), "images": (len(arrays["knots"]), d)}


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Refuse to overwrite anything. Only another model may be overwritten, and only on request."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / MANIFEST).is_file():
        raise FileExistsError(f"{folder}: something else is there already. Choose another name.")
    if not overwrite:
        raise FileExistsError(f"{folder}: there is a model already. Choose another name, or replace it with --force.")


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise InvalidModel(f"{folder}: this is not a model; it has no {MANIFEST}.")
    try:
        content = json.loads(path.read_text(encoding="ascii"))
    except (ValueError, RecursionError):
        raise InvalidModel(f"{folder}: {MANIFEST} is damaged; it is not JSON.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidModel(f"{folder}: {MANIFEST} was not written by fedspca.")
    if content.get("format_version") not in VERSIONS:
        raise InvalidModel(
            f"{folder}: the model has format {content.get('format_version')} (fedspca "
            f"{content.get('fedspca_version')}) and this is fedspca {__version__}, which reads format "
            f"{max(VERSIONS)} and older. Use the version that wrote it, or a newer one."
        )
    told = content.pop("checksum", None)
    if told != checksum(canonical(content)):
        raise InvalidModel(f"{folder}: {MANIFEST} is damaged or was changed: its checksum does not fit.")
    return content


def _stored_array(folder: Path, name: str, told: str | None) -> Array:
    path = folder / f"{name}.npy"
    if not path.is_file():
        raise InvalidModel(f"{folder}: the model is not complete; {name}.npy is missing.")
    if checksum(path.read_bytes()) != told:
        raise InvalidModel(f"{folder}: {name}.npy is damaged or was changed: its checksum does not fit.")
    array: Array = np.load(path, allow_pickle=False)
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise InvalidModel(f"{folder}: {name}.npy must hold finite numbers in double precision.")
    return array


def checksum(content: bytes) -> str:
    """Return what a file is known by: the SHA-256 of its bytes."""
    return hashlib.sha256(content).hexdigest()


def canonical(content: Mapping[str, Any]) -> bytes:
    """Return a manifest as the bytes of which its checksum is taken."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
