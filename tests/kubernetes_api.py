"""A Kubernetes API on loopback for kubectl: it keeps what it is given, if the schema of the API accepts it.

Nothing runs. A StatefulSet is rolled out as soon as it is there.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate  # type: ignore[import-untyped]

VERSION = "1.32"
ANNOTATIONS = 256 << 10
"""Bytes that the names and values of all annotations of an object may have together."""
# Group and version -> kind -> name in URLs.
KINDS = {
    "v1": {"Secret": "secrets", "ConfigMap": "configmaps", "Service": "services", "Pod": "pods"},
    "apps/v1": {"StatefulSet": "statefulsets", "ControllerRevision": "controllerrevisions"},
    "networking.k8s.io/v1": {"NetworkPolicy": "networkpolicies"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
    "autoscaling/v2": {"HorizontalPodAutoscaler": "horizontalpodautoscalers"},
}


def base(version: str) -> str:
    return f"/api/{version}" if "/" not in version else f"/apis/{version}"


def groups() -> list[dict[str, Any]]:
    found = []
    for version in KINDS:
        group, _, number = version.rpartition("/")
        if group:
            named = {"groupVersion": version, "version": number}
            found.append({"name": group, "versions": [named], "preferredVersion": named})
    return found


def discovery() -> dict[str, Any]:
    """What is answered to who asks what there is, by path."""
    verbs = ["get", "list", "create", "patch", "update", "watch", "delete"]
    documents: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": groups()},
        "/version": {"major": "1", "minor": VERSION.split(".")[1], "gitVersion": f"v{VERSION}.0"},
        "/openapi/v3": {"paths": {base(v)[1:]: {"serverRelativeURL": f"/openapi/v3{base(v)}"} for v in KINDS}},
    }
    for version, kinds in KINDS.items():
        group, _, number = version.rpartition("/")
        resources = [
            {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": True, "verbs": verbs}
            for kind, plural in kinds.items()
        ]
        documents[base(version)] = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        # Says that the server looks for unknown fields itself.
        validation = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
        paths = {
            f"{base(version)}/namespaces/{{namespace}}/{plural}/{{name}}": {
                "patch": {
                    "x-kubernetes-group-version-kind": {"group": group, "version": number, "kind": kind},
                    "parameters": validation,
                }
            }
            for kind, plural in kinds.items()
        }
        documents[f"/openapi/v3{base(version)}"] = {"openapi": "3.0.0", "info": {}, "paths": paths}
    return documents


def merged(value: Any, patch: Any) -> Any:
    """A merge patch (RFC 7386), which for lists is less than kubectl's own."""
    if not isinstance(value, dict) or not isinstance(patch, dict):
        return patch
    kept = {name: each for name, each in value.items() if patch.get(name, "") is not None}
    return kept | {name: merged(value.get(name), each) for name, each in patch.items() if each is not None}


class API(ThreadingHTTPServer):
    """`objects` holds what it was given by path; `url` is where it listens. Ends with the block."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, dict[str, Any]] = {}
        self.documents = discovery()
        self.url = f"http://127.0.0.1:{self.server_port}"
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: API

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path in self.server.documents:
            self._answer(200, self.server.documents[path])
        elif path in self.server.objects:
            self._answer(200, self.server.objects[path])
        elif path.rsplit("/", 1)[1] in {plural for kinds in KINDS.values() for plural in kinds.values()}:
            self._list(path)
        else:
            self._refuse(404, "NotFound", f"{path} not found")

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._create(path, given)

    def _create(self, folder: str, given: dict[str, Any]) -> None:
        try:
            kubernetes_validate.validate(given, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            self._refuse(422, "Invalid", str(error))
            return
        if self._has_too_long_annotations(given):
            return
        made = {**given, "metadata": {**given["metadata"], "uid": "1", "resourceVersion": "1", "generation": 1}}
        if made["kind"] == "StatefulSet":
            made["spec"].setdefault("updateStrategy", {"type": "RollingUpdate"})
            count = made["spec"]["replicas"]
            ready = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), count)
            made["status"] = {**ready, "observedGeneration": 1, "currentRevision": "1", "updateRevision": "1"}
        self.server.objects[f"{folder}/{made['metadata']['name']}"] = made
        self._answer(201, made)

    def do_PATCH(self) -> None:
        path = urlsplit(self.path).path
        patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path not in self.server.objects:
            if self.headers["Content-Type"] == "application/apply-patch+yaml":  # kubectl writes JSON
                self._create(path.rpartition("/")[0], patch)
            else:
                self._refuse(404, "NotFound", f"{path} not found")
            return
        made = merged(self.server.objects[path], patch)
        if not self._has_too_long_annotations(made):
            self.server.objects[path] = made
            self._answer(200, made)

    def _has_too_long_annotations(self, made: dict[str, Any]) -> bool:
        """Whether it was refused for them, as ValidateAnnotationsSize of k8s.io/apimachinery does."""
        annotations = made["metadata"].get("annotations") or {}
        if sum(len(each.encode()) for pair in annotations.items() for each in pair) <= ANNOTATIONS:
            return False
        what = f"metadata.annotations: Too long: may not be more than {ANNOTATIONS} bytes"
        self._refuse(422, "Invalid", f"{made['kind']} is invalid: {what}")
        return True

    def _list(self, path: str) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        found = [each for where, each in self.server.objects.items() if where.rpartition("/")[0] == path]
        for selected in asked.get("fieldSelector", []):
            found = [each for each in found if selected == f"metadata.name={each['metadata']['name']}"]
        if "watch" in asked:
            self._answer(200, {"type": "MODIFIED", "object": found[0]} if found else {})
            return
        [(version, kind)] = [
            (version, kind)
            for version, kinds in KINDS.items()
            for kind, plural in kinds.items()
            if path == f"{base(version)}/namespaces/{path.split('/')[-2]}/{plural}"
        ]
        answer = {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": found}
        self._answer(200, answer)

    def _refuse(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
        self._answer(code, {**status, "reason": reason, "message": message})

    def _answer(self, code: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass
