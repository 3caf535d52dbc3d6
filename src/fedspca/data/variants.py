"""VCF and BGEN files: genotypes line by line, turned round so that people are rows.

Both files have one line a variant and can only be read from the first to the last, so they are read once, into a file
without a name that is gone when the process ends. VCF and BCF become two bits a genotype, as in a ``.bed`` file; BGEN
holds expected copies of an allele, which stay numbers in single precision.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedspca.data.columns import shown
from fedspca.data.matrices import MatrixTable
from fedspca.data.plink import PackedTable, variant_name
from fedspca.linalg.packed import pack
from fedspca.site.errors import InvalidData

CODES = np.array([3, 2, 0, 1], dtype=np.uint8)  # of no copy, one copy, two copies, and of a missing genotype
TOGETHER = 64  # variants that are turned round at once


def vcf_table(path: Path) -> PackedTable:
    """Return the genotypes of a VCF or BCF file: how many copies of the alternative allele each person has."""
    about = path.stat()
    return _vcf_table(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=8)  # a fit opens each file several times, and reading it takes long
def _vcf_table(path: Path, _changed: int, _size: int) -> PackedTable:
    from cyvcf2 import VCF

    names: list[str] = []
    with _understood(path), tempfile.TemporaryFile() as lines:
        file = VCF(str(path), gts012=True)
        people = list(file.samples)
        for variant in file:
            if len(variant.ALT) != 1:
                raise InvalidData(
                    f"{path}: the variant at {variant.CHROM}:{variant.POS} has {len(variant.ALT)} alternative alleles, "
                    "and a feature counts one. Write one line for each first: bcftools norm -m -any."
                )
            place = (variant.CHROM, variant.ID or ".", variant.POS)
            names.append(variant_name(*place, counted=variant.ALT[0], other=variant.REF))
            lines.write(pack(CODES[variant.gt_types][None]).tobytes())
        _refuse_nothing(path, people, names)
        lines.flush()
        packed = np.memmap(lines, dtype=np.uint8, mode="r", shape=(len(names), -(-len(people) // 4)))
    return PackedTable(str(path), names, {"IID": people}, packed)


def bgen_table(path: Path) -> MatrixTable:
    """Return the genotypes of a BGEN file: the expected copies of the second allele that each person has."""
    about = path.stat()
    return _bgen_table(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=8)
def _bgen_table(path: Path, _changed: int, _size: int) -> MatrixTable:
    from bgen import BgenReader

    names: list[str] = []
    with _understood(path), tempfile.TemporaryFile() as columns, BgenReader(str(path)) as file:
        shape = (len(file.samples), len(file))
        _refuse_nothing(path, file.samples, range(len(file)))
        matrix = np.memmap(columns, dtype=np.float32, mode="w+", shape=shape)
        some: list[Any] = []
        for variant in file:
            if len(variant.alleles) != 2:
                raise InvalidData(
                    f"{path}: the variant {shown(variant.rsid)} has {len(variant.alleles)} alleles, and a feature "
                    "counts one of two. Leave such variants out first."
                )
            first, second = variant.alleles
            place = (variant.chrom, variant.rsid or ".", variant.pos)
            names.append(variant_name(*place, counted=second, other=first))
            some.append(variant.alt_dosage)
            if len(some) == TOGETHER or len(names) == shape[1]:
                matrix[:, len(names) - len(some) : len(names)] = np.column_stack(some)
                some = []
        matrix.flush()
        mapped = np.memmap(columns, dtype=np.float32, mode="r", shape=shape)
    return MatrixTable(str(path), mapped, names, fixed_layout=True)


def _refuse_nothing(path: Path, people: Any, variants: Any) -> None:
    if not len(people) or not len(variants):
        what = "people" if not len(people) else "variants"
        raise InvalidData(f"{path}: it holds no {what}, so there are no genotypes in it.")


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn what a reader says of a broken file into one sentence that names the file."""
    try:
        yield
    except InvalidData:
        raise
    except (OSError, ValueError, RuntimeError, UnicodeDecodeError) as error:
        kind = type(error).__name__
        raise InvalidData(f"{path}: it cannot be read; it may be damaged, or another kind of file. ({kind}.)") from None
