"""Exit 0 if the server answers a signed-in client under its own name, as a worker would ask it."""

import base64
import json
import pathlib
import urllib.request

password = pathlib.Path("/run/secrets/mlflow_admin_password").read_text(encoding="utf-8").strip()
request = urllib.request.Request(
    "http://mlflow:5000/api/2.0/mlflow/experiments/search",
    data=json.dumps({"max_results": 1}).encode(),
    headers={
        "Authorization": "Basic " + base64.b64encode(f"admin:{password}".encode()).decode(),
        "Content-Type": "application/json",
    },
)
with urllib.request.urlopen(request, timeout=8) as answer:  # noqa: S310
    json.load(answer)["experiments"]
