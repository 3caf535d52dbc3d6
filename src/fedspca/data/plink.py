"""PLINK's binary files: genotypes in ``.bed``, variants in ``.bim``, people in ``.fam``.

A variant is a feature, called as in the ``.raw`` tables of PLINK: its identifier, ``_``, and the counted allele. So
sites that count other alleles do not fit together, and are told so. Genotypes stay at two bits each.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.data.columns import Column
from fedspca.data.tables import Block, as_texts, rows_a_block
from fedspca.linalg.packed import PackedRows, decoded, transposed
from fedspca.linalg.row_blocks import forget_mapped
from fedspca.site.errors import InvalidData

MAGIC = b"\x6c\x1b\x01"  # the first bytes, and that there is one line a variant
HEADER = len(MAGIC)
FAM = ("FID", "IID", "father", "mother", "sex", "phenotype")
PEOPLE, VARIANTS = 1 << 14, 1 << 10  # genotypes of at most so many are turned round at once; both divide by four
BLOCK_BYTES = 256 << 20  # size of a packed block of people: the whole file is read once for each
KIND = "genotype"


class PackedTable:
    """Genotypes at two bits each; columns about people stand beside them.

    Parameters
    ----------
    where : str
        The file's name, for errors.
    names : sequence of str
        The variants.
    people : mapping of str to sequence of str
        What is known of the people, by column.
    lines : ndarray of uint8 of shape (variants, ceil(people / 4))
        The packed codes, one line a variant; most often mapped.
    """

    fixed_layout = True  # variants and people cannot be mistaken for each other

    def __init__(
        self, where: str, names: Sequence[str], people: Mapping[str, Sequence[Any]], lines: NDArray[np.uint8]
    ) -> None:
        self.where, self._people, self._lines = where, people, lines
        self.n_rows = len(next(iter(people.values())))
        beside = tuple(Column(name, "beside", "people") for name in people if name not in set(names))
        self.columns = (*(Column(name, "number", KIND) for name in names), *beside)
        self._at = {name: j for j, name in enumerate(names)}

    def packed_blocks(self, names: Sequence[str]) -> Iterator[NDArray[np.uint8]]:
        """Yield the packed codes of people, some at a time, over these variants in their order."""
        variants, chosen = self._lines, np.array([self._at[name] for name in names], dtype=np.intp)
        width = -(-len(chosen) // 4)
        people = min(PEOPLE, 4 * max(1, BLOCK_BYTES // (4 * width)))
        for start in range(0, self.n_rows, people):
            stop = min(start + people, self.n_rows)
            block = np.empty((stop - start, width), dtype=np.uint8)
            for first in range(0, len(chosen), VARIANTS):
                piece = np.asarray(variants[chosen[first : first + VARIANTS], start // 4 : -(-stop // 4)])
                block[:, first // 4 : (first + VARIANTS) // 4] = transposed(piece, stop - start)
                forget_mapped(variants)  # after each piece: the system maps many pages around each that is read
            yield block

    def packed_rows(self, names: Sequence[str]) -> PackedRows:
        """Return the genotypes of these variants, packed, in memory."""
        return PackedRows(np.concatenate(list(self.packed_blocks(names))), len(names))

    def beside(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return columns about the people."""
        return {name: as_texts(self._people[name]) for name in names}

    def blocks(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        """Go through the people, with these variants as numbers and those columns about people as text."""
        beside = self.beside(texts)
        at, step = 0, rows_a_block(len(numbers))
        for packed in self.packed_blocks(numbers):
            for start in range(0, len(packed), step):
                rows = decoded(packed[start : start + step], len(numbers))
                yield Block(rows, {name: values[at : at + len(rows)] for name, values in beside.items()})
                at += len(rows)


def bed_table(path: Path) -> PackedTable:
    """Return a ``.bed`` file, mapped, with its ``.bim`` and ``.fam`` files."""
    variants, people = _fields(path, ".bim", 6), _fields(path, ".fam", 6)
    width = -(-len(people) // 4)
    _check(path, len(people), len(variants), width)
    names = [variant_name(line[0], line[1], line[3], counted=line[4], other=line[5]) for line in variants]
    about = {name: _present(name, [line[j] for line in people]) for j, name in enumerate(FAM)}
    lines = np.memmap(path, dtype=np.uint8, mode="r", offset=HEADER, shape=(len(variants), width))
    return PackedTable(str(path), names, about, lines)


def _check(path: Path, n_people: int, n_variants: int, width: int) -> None:
    with path.open("rb") as file:
        start = file.read(HEADER)
    if start[:2] != MAGIC[:2]:
        raise InvalidData(f"{path}: it is not a .bed file of PLINK. (Genomic regions have files of this name too.)")
    if start != MAGIC:
        raise InvalidData(f"{path}: it has one line a person. Write it anew with: plink2 --bfile FILE --make-bed")
    size, expected = path.stat().st_size, HEADER + n_variants * width
    if size != expected:
        raise InvalidData(
            f"{path}: {n_people} people (.fam) and {n_variants} variants (.bim) make {expected} bytes, and it has "
            f"{size}. It is cut short, or one of the three files belongs to others."
        )


def _fields(path: Path, suffix: str, fields: int) -> list[list[str]]:
    """Return the fields of each line of a file that belongs to a ``.bed`` file."""
    beside = path.with_suffix(suffix)
    try:
        lines = [line.split() for line in beside.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise InvalidData(f"{path}: it needs {beside.name} beside it, and that is not there.") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{beside}: it is not text in UTF-8.") from None
    wrong = next((j for j, line in enumerate(lines, 1) if len(line) != fields), None)
    if wrong is not None or not lines:
        raise InvalidData(f"{beside}: line {wrong or 1} must have {fields} fields, and has another number of them.")
    return lines


def variant_name(chromosome: str, identifier: str, position: Any, *, counted: str, other: str) -> str:
    """Return the name of a variant: identifier and counted allele; its place, where it has no identifier."""
    known = identifier if identifier != "." else f"{chromosome}:{position}:{other}:{counted}"
    return f"{known}_{counted}"


def _present(name: str, values: Sequence[str]) -> list[Any]:
    """Return values of ``.fam``, None where PLINK's code says that there is none."""
    missing = {"sex": {"0"}, "phenotype": {"-9", "NA"}, "father": {"0"}, "mother": {"0"}}.get(name, set())
    return [None if value in missing else value for value in values]
