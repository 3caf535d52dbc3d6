"""From a path or a DataFrame to a table, by what the file is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedspca.data.urls import is_url
from fedspca.site.errors import InvalidData

if TYPE_CHECKING:
    from fedspca.data.tables import Table
    from fedspca.data.text import Cells


@dataclass(frozen=True)
class TextOptions:
    """How a table is written, where that cannot be found out.

    Parameters
    ----------
    encoding : str, optional
        How its letters are stored; by default UTF-8, or what the file's first bytes say, or else cp1252. In files of
        SPSS, Stata and SAS by default what the file says.
    separator : str, optional
        What stands between values; by default the likeliest of comma, semicolon, tab and bar.
    decimal : str, optional
        The decimal sign; by default a comma where values such as 1,5 stand between other signs than commas.
    sheet : str, optional
        The sheet of a workbook; by default its first.
    query : str, optional
        The rows that are taken from a database, in SQL.
    """

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    query: str | None = None


def _text(path: Path, options: TextOptions) -> "Table":
    from fedspca.data.text import TextTable

    return TextTable(path, options)


def _parquet(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.arrow import ParquetTable

    return ParquetTable(path)


def _arrow(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.arrow import IpcTable

    return IpcTable(path)


def _numpy(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.matrices import numpy_table

    return numpy_table(path)


def _anndata(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.matrices import AnnDataTable

    return AnnDataTable(path)


def _bed(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.plink import bed_table

    return bed_table(path)


def _vcf(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.variants import vcf_table

    return vcf_table(path)


def _bgen(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.variants import bgen_table

    return bgen_table(path)


def _sheet(path: Path, options: TextOptions) -> "Table":
    from fedspca.data.packages import SheetTable

    return SheetTable(path, options.sheet)


def _package(path: Path, options: TextOptions) -> "Table":
    from fedspca.data.packages import PackageTable

    return PackageTable(path, options.encoding)


def _r(path: Path, _options: TextOptions) -> "Table":
    from fedspca.data.packages import r_table

    return r_table(path)


FORMATS: dict[str, Callable[[Path, TextOptions], "Table"]] = {
    **{f"{kind}{packed}": _text for kind in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".bz2", ".zst")},
    ".parquet": _parquet,
    ".pq": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".npy": _numpy,
    ".npz": _numpy,
    ".h5ad": _anndata,
    ".zarr": _anndata,
    ".bed": _bed,
    **dict.fromkeys((".vcf", ".vcf.gz", ".bcf"), _vcf),
    ".bgen": _bgen,
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), _sheet),
    **dict.fromkeys((".sav", ".zsav", ".dta", ".sas7bdat", ".xpt"), _package),
    **dict.fromkeys((".rds", ".rdata", ".rda"), _r),
}
EXTRAS = {
    "pyarrow": "files",
    "h5py": "h5ad",
    "zarr": "zarr",
    "python_calamine": "sheets",
    "pyreadstat": "packages",
    "pyreadr": "r",
    "duckdb": "sql",
    "sqlalchemy": "sql",
    "cyvcf2": "genotypes",
    "bgen": "genotypes",
}
OTHERS = {  # formats that people use and that are not supported
    ".pgen": "convert it with: plink2 --pfile FILE --make-bed, and take the .bed file",
    ".bim": "take the .bed file beside it",
    ".fam": "take the .bed file beside it",
    ".json": "write it as CSV or Parquet",
    ".db": "name it as a database, sqlite:///FILE or duckdb:///FILE, with --query",
    ".duckdb": "name it as a database, duckdb:///FILE, with --query",
    ".sqlite": "name it as a database, sqlite:///FILE, with --query",
    ".h5": "write it as AnnData, .h5ad",
    ".loom": "write it as AnnData, .h5ad",
    ".mtx": "write it as .npz with scipy.sparse.save_npz, or as AnnData, .h5ad",
    ".dat": "if it is a text table, give it the ending .txt",
    ".tab": "if it is a text table, give it the ending .tsv",
    ".numbers": "save it as .xlsx",
    ".xlsb": "save it as .xlsx",
    ".xz": "compress it with gzip instead",
    ".mat": "write it as .npy, .npz or CSV",
    ".pdf": "it is no table",
    ".doc": "it is no table",
    ".docx": "it is no table",
    ".por": "save it as .sav",
    ".sas7bcat": "take the .sas7bdat file beside it, which then has the labels of this catalog",
    ".zip": "unpack it and name the files in it",
}
BEGINNINGS = {  # first bytes of files that people give another ending, what they are, and which endings are theirs
    b"PAR1": ("a Parquet file", (".parquet", ".pq")),
    b"ARROW1": ("an Arrow file", (".arrow", ".feather")),
    b"PK\x03\x04": ("a workbook or an archive", (".xlsx", ".xlsm", ".ods", ".npz")),
    b"\xd0\xcf\x11\xe0": ("a workbook of Excel", (".xls", ".xlsx", ".xlsm")),  # also one with a password
    b"\x1f\x8b": ("compressed", (".gz", ".rds", ".rdata", ".rda", ".bgen", ".bcf")),
    b"\x89HDF": ("an HDF5 file", (".h5ad",)),
    b"$FL": ("a file of SPSS", (".sav", ".zsav")),
    b"\x93NUMPY": ("a file of numpy", (".npy",)),
    b"SQLite format 3": ("a database", ()),
    b"<html": ("a web page", ()),
    b"<!DOCTYPE": ("a web page", ()),
}


def open_table(source: Any, options: TextOptions | None = None) -> "Table":
    """Open a file, or a pandas or polars DataFrame, as a table; its rows are not read yet.

    Parameters
    ----------
    source : path, URL or DataFrame
        CSV (also gzip, bzip2 or zstd), Parquet, Arrow, ``.npy``, ``.npz`` (CSR), AnnData (``.h5ad``, ``.zarr``),
        genotypes (``.bed``, ``.vcf``, ``.bgen``), a workbook, a file of SPSS, Stata, SAS or R, a DataFrame, or the URL
        of a database.
    options : TextOptions, optional
        How a text table is written.
    """
    with _readers_there():
        if hasattr(source, "columns"):
            from fedspca.data.arrow import frame_table

            return frame_table(source)
        if is_url(source):
            from fedspca.data.sql import query_table

            return query_table(source, (options or TextOptions()).query)
        path = Path(source)
        return _opener(path)(path, options or TextOptions())


def open_cells(path: Path, options: TextOptions | None = None) -> "Cells":
    """Read a text file value by value, for what is no table of rows, such as a covariance.

    Parameters
    ----------
    path : Path
        CSV and its relatives, also compressed.
    options : TextOptions, optional
        How it is written.
    """
    with _readers_there():
        if _opener(path, "Name the file in it with the matrix.") is not _text:
            raise InvalidData(f"{path}: it is not a text table. Save it as .csv.")
        from fedspca.data.text import read_cells

        return read_cells(path, options or TextOptions())


@contextmanager
def _readers_there() -> Iterator[None]:
    """Say which extra brings a reader that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise InvalidData(
            f"Reading this needs {error.name}. Install it with: pip install 'fedspca[{EXTRAS[error.name]}]'"
        ) from None


def how_read(source: Any, options: TextOptions | None = None) -> tuple[str, ...]:
    """Return what was found out about how a table is written, in words, where that is not the usual way."""
    if is_url(source):
        return ()
    return getattr(open_table(source, options), "told", ())


def suffix_of(path: Path) -> str:
    """Return the ending that says what a file is: the longest one known."""
    name = path.name.lower()
    return max((ending for ending in FORMATS if name.endswith(ending)), key=len, default="")


def is_workbook(source: Any) -> bool:
    """Whether a source is a workbook, whose sheets have names."""
    return not is_url(source) and FORMATS.get(suffix_of(Path(source))) is _sheet


def catalog_of(path: Path) -> Path | None:
    """Return the catalog with the value labels of a file of SAS: called like it, or ``formats``, as SAS calls it."""
    if suffix_of(path) != ".sas7bdat":
        return None
    beside = (path.with_suffix(".sas7bcat"), path.with_name("formats.sas7bcat"))
    return next((catalog for catalog in beside if catalog.is_file()), None)


def _opener(
    path: Path, of_directory: str = "Name the files in it, each as a site."
) -> Callable[[Path, TextOptions], "Table"]:
    if not path.exists():
        raise InvalidData(f"{path}: there is no such file.")
    suffix = suffix_of(path)
    if path.is_dir() and suffix == ".zarr":
        return FORMATS[suffix]
    if path.is_dir():
        raise InvalidData(f"{path}: it is a directory. {of_directory}")
    if not suffix:
        advice = OTHERS.get(path.suffix.lower())
        if advice is not None:
            raise InvalidData(f"{path}: files of this kind are not read; {advice}.")
        raise InvalidData(f"{path}: its kind is not known. The name must end in one of {', '.join(FORMATS)}.")
    try:
        path.open("rb").close()
    except PermissionError:
        raise InvalidData(f"{path}: you have no permission to read it. Ask its owner for it.") from None
    if path.stat().st_size == 0:
        raise InvalidData(f"{path}: the file is empty.")
    _refuse_disguised(path, suffix)
    return FORMATS[suffix]


def _refuse_disguised(path: Path, suffix: str) -> None:
    """Refuse a file that is plainly of another kind than its ending says."""
    with path.open("rb") as file:
        start = file.read(16)
    for mark, (what, endings) in BEGINNINGS.items():
        if start.startswith(mark) and not suffix.endswith(endings):
            do = f"Give it the ending {' or '.join(endings)}" if endings else "Save the table in it as .csv or .xlsx"
            raise InvalidData(f"{path}: it is {what}, although its name ends in {suffix}. {do}.")
