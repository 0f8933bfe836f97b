"""What the calls of the API do, by topic: people, node, cluster, clients, selections of them, blocks, past, jobs.

`ENDPOINTS` is the table of all calls; a call exists if it stands there, with its role.
"""

from typing import Final

from holdfast.console.api import blocks, client_selections, clients, cluster, jobs, node, past, people
from holdfast.console.web.endpoints import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *people.ENDPOINTS,
    *node.ENDPOINTS,
    *cluster.ENDPOINTS,
    *clients.ENDPOINTS,
    *client_selections.ENDPOINTS,
    *blocks.ENDPOINTS,
    *past.ENDPOINTS,
    *jobs.ENDPOINTS,
)
