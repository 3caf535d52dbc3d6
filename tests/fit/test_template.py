from fedspca.fit import FitSettings, read_fit_settings
from fedspca.fit.template import template


def test_the_template_holds_every_setting_and_reads_back(tmp_path):
    study = FitSettings(
        files=("a,b.csv", 'q"\\.parquet', "ü.csv"),
        exclude=("x\ny",),
        categories={"sex of patient": ("F", "M")},
        nonzero=4,
        tol=1e-7,
    )
    (tmp_path / "fit.toml").write_text(template(study), encoding="utf-8")
    read = read_fit_settings(tmp_path / "fit.toml")
    assert read == study.with_given({"files": tuple(str(tmp_path / file) for file in study.files)})
    every = template(FitSettings())
    assert all(f"{name} = " in every for name in FitSettings.__dataclass_fields__)
