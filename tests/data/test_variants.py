"""Genotypes in VCF and BGEN are those of the same .bed file, and what is wrong is said."""

from pathlib import Path

import numpy as np
import pytest
from bed_reader import to_bed
from bgen import BgenWriter

from fedspca import ExactSPCA
from fedspca.data import open_table
from fedspca.data.plink import PackedTable
from fedspca.fit import FitSettings, fit_files
from fedspca.site import InvalidData
from helpers.study_files import parts_of

HEADER = (
    "##fileformat=VCFv4.2\n##contig=<ID=1>\n"
    '##FORMAT=<ID=GT,Number=1,Type=String,Description="genotype">\n'
    "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"
)
CALLS = {0.0: "0/0", 1.0: "0|1", 2.0: "1/1"}
N, D = 37, 70  # neither is a multiple of four, and more variants than are turned round at once
PEOPLE = [f"p{i}" for i in range(N)]
NAMES = [f"rs{j}_G" for j in range(D)]


def genotypes():
    rng = np.random.default_rng(0)
    values = rng.binomial(2, rng.uniform(0.2, 0.8, D), (N, D)).astype(float)
    values[rng.random(values.shape) < 0.05] = np.nan
    return values


def write_vcf(path, values, **changed):
    lines = [
        "\t".join(["1", str(j + 1), f"rs{j}", "A", "G", ".", ".", ".", "GT", *(CALLS.get(v, "./.") for v in column)])
        for j, column in enumerate(values.T)
    ]
    path.write_text(HEADER + "\t".join(PEOPLE[: len(values)]) + "\n" + "\n".join(lines) + "\n")


def write_bgen(path, values):
    writer = BgenWriter(str(path), len(values), PEOPLE[: len(values)])
    for j, column in enumerate(values.T):
        shares = np.stack([np.where(np.isnan(column), np.nan, column == copies) for copies in range(3)], axis=1)
        writer.add_variant(f"v{j}", f"rs{j}", "1", j + 1, ["A", "G"], shares.astype(float))
    writer.close()


@pytest.fixture
def files(tmp_path):
    values = genotypes()
    write_vcf(tmp_path / "a.vcf", values)
    write_bgen(tmp_path / "a.bgen", values)
    about = {"iid": PEOPLE, "chromosome": ["1"] * D, "sid": [f"rs{j}" for j in range(D)], "allele_1": ["G"] * D}
    to_bed(tmp_path / "a.bed", values, properties={**about, "allele_2": ["A"] * D})
    return tmp_path


def test_vcf_and_bgen_hold_the_genotypes_of_the_bed_file(files):
    for kind in ("bed", "vcf", "bgen"):
        table = open_table(files / f"a.{kind}")
        assert [column.name for column in table.columns if column.kind == "number"] == NAMES
        rows = np.vstack([block.numbers for block in table.blocks(NAMES, ())])
        assert np.array_equal(rows, genotypes(), equal_nan=True)
    table = open_table(files / "a.vcf")
    assert isinstance(table, PackedTable)
    assert table is open_table(files / "a.vcf")  # read once
    (block,) = table.blocks(NAMES[3:4], ("IID",))
    assert list(block.texts["IID"]) == PEOPLE


def test_fits_are_alike(files):
    given = {"nonzero": 4, "path": False, "scale_by": "allele", "components": 1}
    models = [fit_files(FitSettings(files=(str(files / f"a.{kind}"),), **given)) for kind in ("bed", "vcf", "bgen")]
    for model in models[1:]:
        assert np.abs(model.components - models[0].components).max() < 1e-8


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("kind", ["vcf", "bgen"])
def test_files_of_several_sites_give_what_the_pooled_genotypes_give(tmp_path, kind, k):
    files = tuple(str(tmp_path / f"site{j}.{kind}") for j in range(k))
    for file, part in zip(files, parts_of(genotypes(), k), strict=True):
        (write_vcf if kind == "vcf" else write_bgen)(Path(file), part)
    model = fit_files(FitSettings(files=files, nonzero=4, path=False, max_missing=0.3, min_rows=2))
    whole = ExactSPCA(2, n_nonzero=4, scale=True, max_missing=0.3).fit(genotypes())
    assert np.abs(model.components - whole.components_).max() < 1e-8


def test_what_cannot_be_counted_is_said(files):
    text = (files / "a.vcf").read_text()
    (files / "several.vcf").write_text(text.replace("rs5\tA\tG", "rs5\tA\tG,T"))
    with pytest.raises(InvalidData, match="1:6 has 2 alternative alleles, and a feature counts one"):
        open_table(files / "several.vcf")
    (files / "empty.vcf").write_text("".join(text.partition("p36\n")[:2]))
    with pytest.raises(InvalidData, match="it holds no variants"):
        open_table(files / "empty.vcf")
    for kind in ("vcf", "bgen"):
        (files / f"b.{kind}").write_bytes(b"this is no such file" * 50)
        with pytest.raises(InvalidData, match="it cannot be read"):
            open_table(files / f"b.{kind}")
