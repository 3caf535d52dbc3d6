from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.study.run import run_study
from fedspca.study.simulation import endpoint_of, endpoints, make_simulation
from helpers.studies import SITES, study


def test_a_simulation_runs_with_every_site_on_this_machine(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    folder = make_simulation(files / "trial", study(), data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert model.n_sites == 3
    assert endpoint_of(folder.path, 1).site.name == "north"
