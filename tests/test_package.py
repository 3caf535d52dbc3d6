"""What `import fedspca` gives, and what it costs."""

import subprocess
import sys

import pytest

import fedspca
import fedspca.federation


@pytest.mark.parametrize("package", [fedspca, fedspca.federation])
def test_every_public_name_is_there(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(fedspca.__all__) <= set(dir(fedspca))


def test_an_unknown_name_is_an_attribute_error():
    name = "SparsePCB"
    for package in (fedspca, fedspca.federation):
        with pytest.raises(AttributeError, match=r"fedspca.*'SparsePCB'"):
            getattr(package, name)


def test_the_relay_pays_for_no_numbers():
    # a SuperNode starts a process for every message, so an import here is paid for in every round by every site
    code = "import sys, fedspca.flower.relay; print(sorted({'numpy', 'scipy', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
