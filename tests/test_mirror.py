"""The tests of ``src/fedspca/a/b.py`` are in ``tests/a/test_b.py``, so that they are found by the module's path."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src/fedspca", ROOT / "tests"

# A module without a mirror: the tests that cover it, and why it has none of its own.
ELSEWHERE = {
    "__main__.py": ("cli/test_app.py", "one call of the command line"),
    "_callers.py": ("test_callers.py", "its test has no underscore"),
    "_lazy.py": ("test_package.py", "what the packages export, and what it costs"),
    "_version.py": ("cli/test_app.py", "one constant"),
    "attack/__main__.py": ("attack/test_reconstruction.py", "it prints what the attack finds"),
    "cli/demo.py": ("test_demo.py", "it calls the demo"),
    "cli/options.py": ("cli/test_every_command.py", "declarations of options"),
    "cli/progress.py": ("cli/test_fit.py", "it draws, and decides nothing"),
    "cli/rows.py": ("cli/test_transform.py", "how transform, score and report read new rows"),
    "cli/site.py": ("cli/test_study.py", "a site's commands and a study's need each other"),
    "cli/warnings.py": ("cli/test_fit.py", "it prints a warning as one line"),
    "cli/watching.py": ("cli/test_study.py", "what a run tells, as the commands show it"),
    "cli/write.py": ("cli/test_transform.py", "how transform and score write what they find"),
    "data/arrow.py": ("data/test_formats.py", "every format is held to the same rows"),
    "data/matrices.py": ("data/test_formats.py", "every format is held to the same rows"),
    "data/urls.py": ("data/test_sql.py", "names of databases"),
    "data/store.py": ("data/test_prepare.py", "the files of a prepared copy"),
    "door/session.py": ("door/test_endpoint.py", "what an endpoint hands to its questions"),
    "estimators/base.py": ("contracts/solver.py", "every estimator inherits the contract"),
    "estimators/consensus.py": ("contracts/solver.py", "every estimator inherits the contract"),
    "experiments/beside.py": ("cli/test_reproduce.py", "run whole, quickly, by the command"),
    "experiments/iid_synthetic.py": ("cli/test_reproduce.py", "run whole, quickly, by the command"),
    "experiments/noniid_synthetic.py": ("experiments/test_page.py", "its numbers are compared with the page's"),
    "experiments/noniid_wdbc.py": ("cli/test_reproduce.py", "run whole, quickly, by the command"),
    "experiments/records.py": ("experiments/test_page.py", "the page is made of its records"),
    "experiments/sections.py": ("experiments/test_page.py", "a part of the page"),
    "experiments/sections_literature.py": ("experiments/test_literature.py", "a part of the page"),
    "experiments/stability.py": ("experiments/test_page.py", "its section and its numbers are on the page"),
    "experiments/sections_wdbc.py": ("experiments/test_page.py", "a part of the page"),
    "federation/base.py": ("contracts/federation.py", "every federation inherits the contract"),
    "federation/channel.py": ("federation/test_conversation.py", "a protocol, and a dictionary behind it"),
    "federation/released.py": ("federation/test_private.py", "what is released is compared with the rows there"),
    "fit/settings.py": ("fit/test_settings_file.py", "declarations, read from a file there"),
    "flower/control.py": ("flower/test_executor.py", "a real SuperLink is told what to do in drills/flower"),
    "flower/task.py": ("study/test_conductor.py", "a real SuperLink hands out runs in drills/study"),
    "linalg/cardinality/bounds.py": ("linalg/cardinality/test_proof.py", "bounds are compared with all supports"),
    "linalg/cardinality/branch.py": ("linalg/cardinality/test_proof.py", "proofs are compared with all supports"),
    "linalg/cardinality/column.py": ("linalg/cardinality/test_joint.py", "the search is compared with all supports"),
    "linalg/cardinality/others.py": ("linalg/cardinality/test_sweeps.py", "columns beside others are compared there"),
    "linalg/cardinality/partition.py": ("linalg/cardinality/test_fewest.py", "a start of that search"),
    "linalg/cardinality/selection.py": ("linalg/cardinality/test_joint.py", "ties are asserted there"),
    "linalg/cardinality/together.py": ("linalg/cardinality/test_joint.py", "refits are asserted there"),
    "linalg/cardinality/trades.py": ("linalg/cardinality/test_fewest.py", "moves of that search"),
    "linalg/cardinality/tuning.py": ("linalg/cardinality/test_joint.py", "numbers without logic"),
    "linalg/compiled/blas.py": ("linalg/compiled/test_splitting.py", "a table of BLAS functions, used there"),
    "linalg/compiled/factors.py": ("linalg/compiled/test_stiefel.py", "a table of LAPACK functions, used there"),
    "linalg/newton.py": ("solvers/exact/test_penalised.py", "the solver's optimality is asserted"),
    "literature/base.py": ("contracts/literature.py", "every method inherits the contract"),
    "masking/messages.py": ("masking/test_party.py", "names of messages"),
    "report/methods.py": ("report/test_page.py", "a part of the page"),
    "plots/certainty.py": ("report/test_certainty.py", "the report draws both"),
    "report/record.py": ("report/test_page.py", "a part of the page"),
    "report/sections.py": ("report/test_page.py", "a part of the page"),
    "site/answers/combat.py": ("site/test_harmony.py", "questions of ComBat are asked there"),
    "site/answers/covariates.py": ("site/test_preparation.py", "a site with covariates is asked there"),
    "site/answers/frames.py": ("site/test_preparation.py", "what a question says of covariates is asked there"),
    "site/answers/gaps.py": ("attacks/test_gaps.py", "what a site tells of missing values is attacked as a whole"),
    "site/errors.py": ("site/test_site.py", "exceptions without logic"),
    "solvers/asking.py": ("contracts/federation.py", "names of arrays"),
    "solvers/consensus.py": ("solvers/test_faspca.py", "the rounds of both consensus solvers"),
    "solvers/deflation.py": ("solvers/test_fsspca.py", "the stages of both consensus solvers"),
    "solvers/exact/driver.py": ("solvers/exact/test_loop.py", "it asks what the loop says"),
    "solvers/exact/grid.py": ("estimators/test_sparsity_path.py", "the grid of a path"),
    "solvers/exact/problem.py": ("solvers/exact/test_loop.py", "a protocol"),
    "solvers/folds/refits.py": ("solvers/folds/test_stability.py", "half samples are drawn, fitted and matched there"),
    "estimators/choosing.py": ("estimators/test_selection.py", "what is chosen is asserted there"),
    "estimators/path_fits.py": ("estimators/test_sparsity_path.py", "the path as a user sees it"),
    "estimators/certainty.py": ("estimators/test_exact.py", "what a fit with folds has"),
    "solvers/rounds.py": ("contracts/solver.py", "every solver's rounds are counted by the contract"),
    "solvers/stopping.py": ("solvers/exact/test_loop.py", "names of reasons"),
    "solvers/warm_start.py": ("solvers/test_faspca.py", "where the consensus begins"),
    "door/meaning.py": ("attacks/test_lost_sites.py", "what a question means is attacked as a whole"),
    "door/prepared.py": (
        "attacks/test_other_transforms.py",
        "transforms, covariates and site effects of an attacker's choice",
    ),
    "dp/plan.py": ("federation/test_private.py", "the plan is tested where it is spent"),
    "masking/coding.py": ("attacks/test_integers_scale.py", "one rule for both sides, attacked as a whole"),
    "solvers/exact/tuning.py": ("solvers/exact/test_columns.py", "numbers without logic"),
    "cli/verify.py": ("study/test_verify.py", "the command prints what is found"),
    "study/bundle.py": ("study/test_verify.py", "what is written there is checked there"),
    "study/earlier.py": ("attacks/test_two_studies.py", "what two studies tell together is attacked as a whole"),
    "study/log_words.py": ("cli/test_study.py", "what the log says, as the command shows it"),
}


def mirror(module):
    return f"{Path(module).parent.as_posix()}/test_{Path(module).name}".removeprefix("./")


MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_its_tests_under_its_name_or_a_reason(module):
    there = (TESTS / mirror(module)).exists()
    if module in ELSEWHERE:
        assert not there, f"{mirror(module)} exists: take {module} off the list"
        tests, reason = ELSEWHERE[module]
        assert (TESTS / tests).exists(), tests
        assert reason
    else:
        assert there, f"tests/{mirror(module)} is missing; write it, or say in ELSEWHERE where {module} is tested"


def test_the_list_names_no_module_that_is_gone():
    assert set(ELSEWHERE) <= set(MODULES)
