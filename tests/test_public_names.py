"""What the packages export: each area lists exactly what it has, and the lazy packages can resolve what they list."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from types import ModuleType

import pytest

PACKAGES = ("chatagent", "chatagent_test")


def all_areas() -> list[str]:
    """Return every sub-package of the two packages."""
    return sorted(
        f"{package}.{folder.name}"
        for package in PACKAGES
        for folder in files(package).iterdir()
        if folder.is_dir() and folder.joinpath("__init__.py").is_file()
    )


AREAS = all_areas()


def public_names(module: ModuleType) -> set[str]:
    """Return what a module's namespace shows, its own sub-modules left out."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith(("_", "@"))  # `@`: of pytest, which rewrites the assertions of plugins
        and name != "annotations"
        and not (isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}."))
    }


def test_there_are_areas() -> None:
    assert {"chatagent.agent", "chatagent.generate", "chatagent.ui", "chatagent_test.harness"} <= set(AREAS)


@pytest.mark.parametrize("area", AREAS)
def test_an_area_lists_what_it_has(area: str) -> None:
    module = import_module(area)

    assert public_names(module) == set(module.__all__)


@pytest.mark.parametrize("name", [*PACKAGES, *AREAS])
def test_lists_are_sorted_and_name_everything_once(name: str) -> None:
    listed = import_module(name).__all__
    constants_then_classes = sorted(listed, key=lambda each: (not each.isupper(), not each[0].isupper(), each))

    assert len(set(listed)) == len(listed)
    assert list(listed) == constants_then_classes


@pytest.mark.parametrize("package", PACKAGES)
def test_a_lazy_package_resolves_what_it_lists(package: str) -> None:
    module = import_module(package)

    for name in module.__all__:
        value = getattr(module, name)
        assert not isinstance(value, ModuleType), f"{package}.{name} is the sub-module, not what it should hold"
    assert dir(module) == sorted(module.__all__)
    with pytest.raises(AttributeError, match=f"^module '{package}' has no attribute 'nonsense'$"):
        _ = module.nonsense


@pytest.mark.parametrize("package", PACKAGES)
def test_a_lazy_package_resolves_each_name_in_a_fresh_process(package: str) -> None:
    names = import_module(package).__all__
    orders = "; ".join(f"check({list(order)!r})" for order in (names, names[::-1]))
    program = (
        f"import importlib, sys, types\n"
        f"def check(names):\n"
        f"    for key in [key for key in sys.modules if key.partition('.')[0] in {PACKAGES!r}]: del sys.modules[key]\n"
        f"    module = importlib.import_module({package!r})\n"
        f"    wrong = [name for name in names if isinstance(getattr(module, name), types.ModuleType)]\n"
        f"    assert not wrong, wrong\n"
        f"{orders}\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_imports_none_of_its_areas(package: str) -> None:
    program = f"import sys, {package}; print([name for name in sys.modules if name.startswith('{package}.')])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_that_it_is_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()
