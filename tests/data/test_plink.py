"""Genotypes of PLINK: against a reader made for them, in a fit, and what is wrong with files."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from bed_reader import open_bed, to_bed

from fedspca import ExactSPCA
from fedspca.data import Columns, choose, open_table
from fedspca.data.prepare import read_sites
from fedspca.fit import FitSettings, fit_files, open_inputs
from fedspca.linalg.packed import PackedRows
from fedspca.site import InvalidData
from helpers.commands import fedspca
from helpers.study_files import parts_of

SNPS = [f"rs{j}" for j in range(13)]
NAMES = [f"{snp}_{'ACGT'[j % 4]}" for j, snp in enumerate(SNPS)]


def genotypes(n, seed=0, missing=0.05):
    """Two populations with other allele frequencies; one in twenty genotypes is missing."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.9, (2, len(SNPS)))
    values = rng.binomial(2, p[rng.integers(0, 2, n)]).astype(float)
    values[rng.random(values.shape) < missing] = np.nan
    return values


def write_bed(path, values):
    n, d = values.shape
    about = {
        "fid": ["f"] * n,
        "iid": [f"p{i}" for i in range(n)],
        "sex": [1 + i % 2 for i in range(n)],
        "chromosome": ["1"] * d,
        "sid": SNPS,
        "bp_position": list(range(1, d + 1)),
        "allele_1": ["ACGT"[j % 4] for j in range(d)],
        "allele_2": ["CATG"[j % 4] for j in range(d)],
    }
    to_bed(path, values, properties=about)


@pytest.fixture
def files(tmp_path):
    for name, n, seed in (("north", 41, 0), ("south", 30, 1)):
        write_bed(tmp_path / f"{name}.bed", genotypes(n, seed))
    return tmp_path


def test_genotypes_are_those_of_a_reader_made_for_them(files):
    with open_bed(files / "north.bed") as bed:
        expected = bed.read(dtype=np.float64)
    table = open_table(files / "north.bed")
    assert [column.name for column in table.columns if column.kind == "number"] == NAMES
    rows = np.vstack([block.numbers for block in table.blocks(NAMES, ())])
    assert np.array_equal(rows, expected, equal_nan=True)
    (block,) = table.blocks(NAMES[5:2:-1], ("IID", "sex"))
    assert np.array_equal(block.numbers, expected[:, 5:2:-1], equal_nan=True)
    assert block.texts["IID"][[0, 40]].tolist() == ["p0", "p40"]
    assert block.texts["sex"][:2].tolist() == ["1", "2"]


def test_pieces_give_the_same_bits(files, monkeypatch):
    with open_bed(files / "north.bed") as bed:
        expected = bed.read(dtype=np.float64)
    monkeypatch.setattr("fedspca.data.plink.PEOPLE", 8)  # neither 41 people nor 13 variants are a multiple
    monkeypatch.setattr("fedspca.data.plink.VARIANTS", 4)
    monkeypatch.setattr("fedspca.linalg.packed.DECODED_BYTES", 8 * 13 * 3)
    rows = open_table(files / "north.bed").packed_rows(NAMES)
    assert np.array_equal(np.vstack([block.copy() for block in rows.blocks()]), expected, equal_nan=True)
    monkeypatch.setattr("fedspca.data.plink.BLOCK_BYTES", 1)
    assert np.array_equal(open_table(files / "north.bed").packed_rows(NAMES).packed, rows.packed)
    assert rows.packed.nbytes == 41 * 4


def pooled(files):
    tables = []
    for name in ("north", "south"):
        with open_bed(files / f"{name}.bed") as bed:
            tables.append(bed.read(dtype=np.float64))
    return np.vstack(tables)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_fit_is_that_of_the_same_table(files, in_memory, monkeypatch):
    if not in_memory:
        monkeypatch.setattr("fedspca.data.prepare.IN_MEMORY", 1)
    beds = tuple(str(files / f"{name}.bed") for name in ("north", "south"))
    settings = FitSettings(files=beds, nonzero=4, path=False, cache=str(files / "cache"))
    model = fit_files(settings)
    assert isinstance(open_inputs(settings).sites[0].rows, PackedRows)
    assert (files / "cache").exists() != in_memory
    pca = ExactSPCA(2, n_nonzero=4, scale=True, max_missing=0.2).fit(pooled(files))
    assert np.abs(model.components - pca.components_).max() < 1e-8
    assert np.allclose(model.mean, pca.mean_)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_files_of_several_sites_give_what_the_pooled_genotypes_give(tmp_path, k):
    values = genotypes(71)
    beds = tuple(str(tmp_path / f"site{j}.bed") for j in range(k))
    for bed, part in zip(beds, parts_of(values, k), strict=True):
        write_bed(bed, part)
    model = fit_files(FitSettings(files=beds, nonzero=4, path=False))
    whole = ExactSPCA(2, n_nonzero=4, scale=True, max_missing=0.2).fit(values)
    assert np.abs(model.components - whole.components_).max() < 1e-8


def test_features_are_divided_by_the_spread_that_allele_frequencies_give(files):
    beds = tuple(str(files / f"{name}.bed") for name in ("north", "south"))
    model = fit_files(FitSettings(files=beds, nonzero=4, path=False, scale_by="allele"))
    rows = pooled(files)
    p = np.nanmean(rows, axis=0) / 2
    assert np.allclose(model.mean, 2 * p)
    assert np.allclose(model.scale, np.sqrt(2 * p * (1 - p)))
    scaled = np.where(np.isnan(rows), 0.0, (rows - 2 * p) / np.sqrt(2 * p * (1 - p)))
    pca = ExactSPCA(2, n_nonzero=4).fit(scaled)  # its mean is zero already
    assert np.abs(model.components - pca.components_).max() < 1e-8
    pd.DataFrame(rows * 3, columns=NAMES).to_csv(files / "no.csv", index=False)
    with pytest.raises(InvalidData, match="counts no copies of an allele"):
        fit_files(FitSettings(files=(str(files / "no.csv"),), scale_by="allele", path=False))


def test_covariates_of_the_fam_file_are_taken_out(files):
    beds = tuple(str(files / f"{name}.bed") for name in ("north", "south"))
    model = fit_files(FitSettings(files=beds, nonzero=4, path=False, adjust=("sex",), levels={"sex": ("1", "2")}))
    sex = np.concatenate([np.arange(41) % 2, np.arange(30) % 2]) + 1
    same = ExactSPCA(2, n_nonzero=4, scale=True, max_missing=0.2)
    same.fit(pd.DataFrame(pooled(files), columns=NAMES), covariates=pd.DataFrame({"sex": sex.astype(str)}))
    assert np.abs(model.components - same.components_).max() < 1e-8


def test_sites_in_the_fam_file_are_told_apart(files):
    table = open_table(files / "north.bed")
    columns = Columns(site="sex")
    found = read_sites(files / "north.bed", choose("x", table.columns, columns), columns, name="north")
    assert [(site.site, site.rows.shape) for site in found] == [("1", (21, 13)), ("2", (20, 13))]


def test_another_counted_allele_is_told_by_name(files):
    bim = (files / "south.bim").read_text().replace("\tA\tC", "\tC\tA")
    (files / "south.bim").write_text(bim)
    beds = tuple(str(files / f"{name}.bed") for name in ("north", "south"))
    with pytest.raises(ValueError, match="lacks 'rs0_A'"):
        fit_files(FitSettings(files=beds))


def test_what_is_wrong_with_the_three_files_is_said(files):
    bed = files / "north.bed"
    content = bed.read_bytes()
    bed.write_bytes(content[:-1])
    with pytest.raises(InvalidData, match=r"41 people \(\.fam\) and 13 variants \(\.bim\) make 146 bytes"):
        open_table(bed)
    bed.write_bytes(b"\x6c\x1b\x00" + content[3:])
    with pytest.raises(InvalidData, match="one line a person"):
        open_table(bed)
    bed.write_bytes(b"chr1\t0\t100\n")
    with pytest.raises(InvalidData, match="Genomic regions"):
        open_table(bed)
    bed.write_bytes(content)
    (files / "north.bim").write_text("1 rs1 0 5 A\n")
    with pytest.raises(InvalidData, match="line 1 must have 6 fields"):
        open_table(bed)
    (files / "north.fam").unlink()
    shutil.copy(files / "south.bim", files / "north.bim")
    with pytest.raises(InvalidData, match=r"it needs north\.fam beside it"):
        open_table(bed)
    (files / "x.bim").write_text("a")
    with pytest.raises(InvalidData, match=r"take the \.bed file beside it"):
        open_table(files / "x.bim")


def test_a_variant_without_a_name_is_called_by_its_place(files):
    bim = (files / "north.bim").read_text().replace("rs3", ".")
    (files / "north.bim").write_text(bim)
    assert open_table(files / "north.bed").columns[3].name == "1:4:G:T_T"


def test_check_shows_every_variant_and_asks_about_none(files):
    ran = fedspca("check", str(files / "north.bed"), str(files / "south.bed"), "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["oddities"] == []
    assert told["features"][0]["range"] == [0.0, 2.0]
    assert told["sites"]["north"]["rows"] == 41
