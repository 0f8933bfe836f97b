"""Every test of this folder runs with each `registry.mode`, unless `registry_modes` names those that can promise it."""

import pytest

MODES = ("linear", "both", "eventual")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "registry_mode" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("registry_modes")
        metafunc.parametrize("registry_mode", MODES if marker is None else marker.args, indirect=True)


@pytest.fixture(autouse=True)
def registry_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    from tests.cluster_disk_world import ClusterDiskWorld  # the sources are chosen when pytest is configured
    from tests.cluster_world import ClusterWorld

    mode: str = request.param
    monkeypatch.setattr(ClusterWorld, "mode", mode)
    monkeypatch.setattr(ClusterDiskWorld, "mode", mode)
    return mode
