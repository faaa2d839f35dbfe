"""A Hub on 127.0.0.1: the part of its HTTP that huggingface_hub uses to publish models and to load them."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of_the_tests"
LARGE = (".safetensors", ".bin", "tokenizer.json")  # what goes through LFS, as `.gitattributes` says on the Hub


@dataclass
class Commit:
    """Files of a commit, and which of them lie in LFS."""

    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    message: str = ""


@dataclass
class Repository:
    """Commits by their names, and the commits that branches are at."""

    private: bool = False
    gated: bool = False
    commits: dict[str, Commit] = field(default_factory=lambda: {"0" * 40: Commit()})
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})

    def resolve(self, revision: str) -> str | None:
        """The name of the commit that a revision stands for."""
        return self.branches.get(revision, revision if revision in self.commits else None)

    def head(self, branch: str = "main") -> Commit:
        return self.commits[self.branches[branch]]


class HubServer:
    """The state of the Hub; `requests` are the methods and paths that it was asked."""

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}  # of LFS
        self.requests: list[str] = []
        self.url = self.storage = ""  # of pages and of large files, which have another host, as on the Hub
        self.is_broken = False
        self.unanswered = ""  # requests that begin with this lose their connection
        self.datasets: dict[str, str] = {}  # their newest commits


@contextmanager
def running_hub() -> Iterator[HubServer]:
    """A server that answers until the end."""
    hub = HubServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"hub": hub}))
    hub.url, hub.storage = (f"http://{host}:{server.server_port}" for host in ("127.0.0.1", "localhost"))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Says nothing."""

    def handle_method(self) -> None:
        self.hub.requests.append(f"{self.command} {self.path}")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = self._chunks()
        if self.hub.unanswered and self.hub.requests[-1].startswith(self.hub.unanswered):
            self.close_connection = True
            return
        for methods, pattern, answer in ROUTES:
            if (
                not self.hub.is_broken
                and self.command in methods
                and (match := re.fullmatch(pattern, urlsplit(self.path).path))
            ):
                answer(self, *map(unquote, match.groups()))
                return
        self.answer({}, 500 if self.hub.is_broken else 404)

    do_GET = do_HEAD = do_POST = do_PUT = handle_method

    def _chunks(self) -> bytes:
        """The body of a request that is sent in chunks."""
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, content: object, status: int = 200, **headers: str) -> None:
        """Sends JSON, or bytes as they are; `X_Repo_Commit` is the header `X-Repo-Commit`."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        headers = {"Content_Length": str(len(body)), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        self.answer({"error": code}, status, X_Error_Code=code, X_Error_Message=code)

    def signed_in(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def repository(self, name: str, revision: str | None = None) -> tuple[Repository, str] | None:
        """A repository and the commit of a revision, if this user may see them; else the answer is given."""
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and not self.signed_in()):
            self.refuse(404 if self.signed_in() else 401, "RepoNotFound")
        elif repository.gated and not self.signed_in():
            self.refuse(401, "GatedRepo")
        elif (commit := repository.resolve(revision or "main")) is None:
            self.refuse(404, "RevisionNotFound")
        else:
            return repository, commit
        return None

    def writable(self, name: str, revision: str) -> tuple[Repository, str] | None:
        if self.signed_in():
            return self.repository(name, revision)
        self.refuse(401, "RepoNotFound")
        return None

    def whoami(self) -> None:
        if self.signed_in():
            self.answer({"type": "user", "name": "org", "orgs": [], "auth": {}})
        else:
            self.refuse(401, "NotSignedIn")

    def create(self) -> None:
        if not self.signed_in():
            self.refuse(401, "NotSignedIn")
            return
        wanted = json.loads(self.body)
        name = f"{wanted.get('organization') or 'org'}/{wanted['name']}"
        known = name in self.hub.repositories
        if not known:
            is_private = wanted.get("visibility") == "private" or wanted.get("private", False)
            self.hub.repositories[name] = Repository(private=is_private)
        self.answer({"url": f"{self.hub.url}/{name}", "name": name}, 409 if known else 200)

    def branch(self, name: str, branch: str) -> None:
        if found := self.writable(name, "main"):
            known = branch in found[0].branches
            found[0].branches.setdefault(branch, found[1])
            self.answer({}, 409 if known else 200)

    def info(self, name: str, revision: str = "main") -> None:
        if found := self.repository(name, revision):
            files = [{"rfilename": path} for path in found[0].commits[found[1]].files]
            self.answer({"id": name, "sha": found[1], "private": found[0].private, "siblings": files, "tags": []})

    def dataset(self, name: str) -> None:
        if name in self.hub.datasets:
            self.answer({"id": name, "sha": self.hub.datasets[name], "siblings": [], "tags": []})
        else:
            self.refuse(404, "RepoNotFound")

    def refs(self, name: str) -> None:
        if found := self.repository(name):
            branches = found[0].branches.items()
            refs = [{"name": b, "ref": f"refs/heads/{b}", "targetCommit": commit} for b, commit in branches]
            self.answer({"branches": refs, "converts": [], "tags": []})

    def tree(self, name: str, revision: str) -> None:
        if found := self.repository(name, revision):
            commit = found[0].commits[found[1]]
            self.answer([self._entry(path, content, path in commit.large) for path, content in commit.files.items()])

    def _entry(self, path: str, content: bytes, is_large: bool) -> dict:
        entry = {"type": "file", "path": path, "size": len(content), "oid": git_name(content)}
        if is_large:
            entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 100}
        return entry

    def validate_card(self) -> None:
        content = json.loads(self.body)["content"]
        errors = [] if content.startswith("---\n") else [{"message": "the card has no metadata"}]
        self.answer({"errors": errors, "warnings": []}, 400 if errors else 200)

    def preupload(self, name: str, revision: str) -> None:
        if self.writable(name, revision):
            paths = [file["path"] for file in json.loads(self.body)["files"]]
            modes = ({"path": p, "uploadMode": "lfs" if p.endswith(LARGE) else "regular"} for p in paths)
            self.answer({"files": [mode | {"shouldIgnore": False} for mode in modes]})

    def batch(self, name: str) -> None:
        wanted = json.loads(self.body)
        if self.writable(name, wanted.get("ref", {"name": "main"})["name"]):
            self.answer({"transfer": "basic", "objects": [self._upload_of(each) for each in wanted["objects"]]})

    def _upload_of(self, wanted: dict) -> dict:
        known = wanted["oid"] in self.hub.objects
        actions = {} if known else {"actions": {"upload": {"href": f"{self.hub.url}/lfs/{wanted['oid']}"}}}
        return {"oid": wanted["oid"], "size": wanted["size"], **actions}

    def store(self, oid: str) -> None:
        self.hub.objects[oid] = self.body
        self.answer({}, 200 if sha256(self.body) == oid else 400)

    def load(self, oid: str) -> None:
        content = self.hub.objects[oid]
        self.answer(content, ETag=f'"{oid}"')

    def commit(self, name: str, branch: str) -> None:
        if not (found := self.writable(name, branch)):
            return
        repository, before = found
        header, *rest = map(json.loads, self.body.splitlines())
        commit = Commit(dict(repository.commits[before].files), set(repository.commits[before].large))
        commit.message = header["value"]["summary"]
        for line in rest:
            self._apply(commit, line["key"], line["value"])
        oid = hashlib.sha1(before.encode() + self.body).hexdigest()
        repository.commits[oid] = commit
        repository.branches[branch] = oid
        url = f"{self.hub.url}/{name}/commit/{oid}"
        self.answer({"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""})

    def _apply(self, commit: Commit, kind: str, value: dict) -> None:
        if kind == "deletedFile":
            del commit.files[value["path"]]
        elif kind == "lfsFile":
            commit.files[value["path"]] = self.hub.objects[value["oid"]]
            commit.large.add(value["path"])
        else:
            commit.files[value["path"]] = base64.b64decode(value["content"])

    def resolve(self, name: str, revision: str, path: str) -> None:
        if not (found := self.repository(name, revision)):
            return
        repository, oid = found
        commit = repository.commits[oid]
        if path not in commit.files:
            self.answer({}, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=oid)
        elif path in commit.large:
            content = commit.files[path]
            linked = {"X_Linked_Etag": f'"{sha256(content)}"', "X_Linked_Size": str(len(content))}
            location = f"{self.hub.storage}/lfs/{sha256(content)}"
            self.answer(b"", 302, X_Repo_Commit=oid, Location=location, **linked)
        else:
            self.answer(commit.files[path], X_Repo_Commit=oid, ETag=f'"{git_name(commit.files[path])}"')


NAME = "((?:[^/]+/)?[^/]+)"
ROUTES: list[tuple[str, str, Callable]] = [
    ("GET", "/api/whoami-v2", Handler.whoami),
    ("POST", "/api/repos/create", Handler.create),
    ("POST", "/api/validate-yaml", Handler.validate_card),
    ("POST", f"/api/models/{NAME}/branch/([^/]+)", Handler.branch),
    ("POST", f"/api/models/{NAME}/preupload/([^/]+)", Handler.preupload),
    ("POST", f"/api/models/{NAME}/commit/([^/]+)", Handler.commit),
    ("POST", rf"/{NAME}\.git/info/lfs/objects/batch", Handler.batch),
    ("PUT", "/lfs/([0-9a-f]{64})", Handler.store),
    ("GET HEAD", "/lfs/([0-9a-f]{64})", Handler.load),
    ("GET", f"/api/models/{NAME}/refs", Handler.refs),
    ("GET", f"/api/models/{NAME}/tree/([^/]+)", Handler.tree),
    ("GET", f"/api/models/{NAME}/revision/([^/]+)", Handler.info),
    ("GET", f"/api/models/{NAME}", Handler.info),
    ("GET", f"/api/datasets/{NAME}", Handler.dataset),
    ("GET HEAD", f"/{NAME}/resolve/([^/]+)/(.+)", Handler.resolve),
]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_name(content: bytes) -> str:
    """The name that git gives a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
