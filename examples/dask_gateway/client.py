"""Start a cluster as a user of the gateway of `run.sh`, and print what the user reads: `client.py [ADDRESS [USER]]`."""

# mypy: ignore-errors

import sys

from dask_gateway import BasicAuth, Gateway

address, user = [*sys.argv[1:], *("http://127.0.0.1:8000", "ana")[len(sys.argv) - 1 :]]
with Gateway(address, auth=BasicAuth(user)) as gateway, gateway.new_cluster() as cluster:
    cluster.scale(3)
    with cluster.get_client() as client:
        client.wait_for_workers(3)
        print("three workers run")
        cluster.scale(5)  # warns
        print(client.submit(sum, range(10)).result())
    try:
        gateway.new_cluster()
    except ValueError as denial:
        print("denied:", denial)
