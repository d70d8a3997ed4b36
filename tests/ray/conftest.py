"""One Ray cluster on this machine for all tests of the folder, and services on it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.ray.on_ray import OnRay
    from tests.replicas.contract import Deploy

if find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Ray on this machine, for as long as the tests run; nodes can be added to it."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster

        made = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 8,
                "include_dashboard": False,
                "object_store_memory": 512 * 2**20,
            },
        )
        ray.init(
            address=made.address,
            log_to_driver=False,
            logging_level="error",
            runtime_env={"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}},
        )
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="session")
def shared_service(cluster: Any) -> Iterator[OnRay]:
    from tests.ray.on_ray import started

    service = started("a", "b", every=1)
    yield service
    service.sessions.shutdown()


@pytest.fixture
def shared(shared_service: OnRay) -> OnRay:
    """The service of all tests that leave nothing behind."""
    return shared_service


@pytest.fixture
def deploy(cluster: Any) -> Iterator[Deploy]:
    """Makes services, which end with the test."""
    from tests.ray.on_ray import started

    made: list[OnRay] = []

    def make(*names: str, **given: Any) -> OnRay:
        made.append(started(*names, **given))
        return made[-1]

    yield make
    for service in made:
        service.sessions.shutdown()
