"""The service under load, beside a Flask handler that calls `predict_proba` per request.

`python benchmarks/serve.py speed MODEL ...` measures start, latency at 50 requests a second, throughput and memory of
a model that `fewnode fit` wrote; `python benchmarks/serve.py storm MODEL` sends 10,000 requests of which 5 % are
malformed, kills the service 20 times and replaces its model 3 times by others that were fitted to other labels: every
answer must be that of the model it names. Everything goes over HTTP on the loopback device.
Rows are added to benchmarks/rows/serve.jsonl; `--table` prints them.
"""

import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fewnode.files import NAME, whole_folder

ROWS = Path(__file__).parent / "rows" / "serve.jsonl"
FLASK = """
import sys
from flask import Flask, jsonify, request
from fewnode import FewShotClassifier
classifier = FewShotClassifier.load(sys.argv[1]).adapt({})
app = Flask("plain")

@app.get("/readyz")
def ready():
    return "ready"

@app.post("/v1/predict")
def predict():
    asked = request.get_json()
    if "nodes" in asked:
        found = classifier.predict_proba(asked["nodes"])
    else:
        found = classifier.predict_proba(new_nodes=asked["new_nodes"], new_edges=asked["new_edges"])
    table = found.table()
    return jsonify([dict(zip(table, map(str, row))) for row in zip(*table.values())])

app.run(port=int(sys.argv[2]), threaded=True)
"""


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self.port, self.timeout = port, timeout
        self.connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None, raw: bytes | None = None) -> tuple[int, object]:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
            self.connection.request(method, path, data, {"content-type": "application/json"})
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


@contextmanager
def running(words: list[str], port: int):
    """A process that answers at a port; with the seconds until it was ready."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                if Client(port, 5).ask("GET", "/readyz")[0] == 200:
                    break
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)
            assert process.poll() is None and time.perf_counter() - started < 120, "it did not start"
        yield process, time.perf_counter() - started
    finally:
        process.kill()
        process.wait()


def service(folder: str, port: int, workers: int = 1):
    words = ["-m", "fewnode", "serve", folder, "--port", str(port), "--workers", str(workers)]
    return running(words, port)


def paced(port: int, bodies: list[object], rate: float = 50) -> list[float]:
    """Latencies of requests that are sent at a rate, whether or not earlier ones are answered, on 16 connections."""
    mine = threading.local()
    begin = time.perf_counter() + 0.1

    def one(i: int) -> float:
        due = begin + i / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        mine.client = getattr(mine, "client", None) or Client(port)
        status, answer = mine.client.ask("POST", "/v1/predict", bodies[i])
        assert status == 200, answer
        return time.perf_counter() - due

    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(one, range(len(bodies))))


def sustained(port: int, names: list[str], seconds: float, size: int = 100) -> float:
    """Nodes a second, by four connections that each send the next batch when the last one is answered."""
    done, end = [0] * 4, time.perf_counter() + seconds

    def ask(i: int) -> None:
        client, draw = Client(port), random.Random(i)
        while time.perf_counter() < end:
            status, _ = client.ask("POST", "/v1/predict", {"nodes": draw.sample(names, size)})
            assert status == 200
            done[i] += size

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - started)


def memory(pid: int) -> dict[str, float]:
    """Megabytes of a process and its children: what each has for itself, and its part of what they share."""
    total = {"Pss": 0, "Private_Dirty": 0, "Rss": 0}
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in (pid, *map(int, children)):
        text = Path(f"/proc/{one}/smaps_rollup").read_text()
        for name in total:
            total[name] += int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M)[1])
    return {name.lower(): round(kilobytes / 1024, 1) for name, kilobytes in total.items()}


def processor(pid: int) -> float:
    """Seconds of processor that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)


def node_names(folder: str) -> list[str]:
    from fewnode import FewShotClassifier

    return list(FewShotClassifier.load(folder).graph.node_names)


def write(row: dict[str, object]) -> None:
    row |= {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row, flush=True)


def speed(folder: str, rounds: int = 4, size: int = 200) -> None:
    """Both services run at the same time and are asked in turn, so that other work on the machine slows both alike."""
    names, draw = node_names(folder), random.Random(0)
    words = ["approximate", "nash", "equilibria", "large", "games", "graph", "networks", "learning", "codes", "bounds"]

    def known(i: int) -> dict[str, object]:
        return {"nodes": [draw.choice(names)]}

    def new(i: int) -> dict[str, object]:
        node = {"id": f"new {i}", "text": " ".join(draw.choices(words, k=40))}
        return {"new_nodes": [node], "new_edges": [[f"new {i}", name] for name in draw.sample(names, 5)]}

    plain = Path(tempfile.mkdtemp()) / "plain.py"
    plain.write_text(FLASK)
    ports = free_port(), free_port()
    flask = running([str(plain), folder, str(ports[1])], ports[1])
    with service(folder, ports[0]) as (one, start), flask as (two, start_two):
        rows = [{"what": what, "nodes": len(names)} for what in ("fewnode serve", "flask")]
        for row, process, port, seconds in zip(rows, (one, two), ports, (start, start_two), strict=True):
            row |= {
                "start_s": round(seconds, 2),
                "start_cpu_s": processor(process.pid),
                "memory_mb": memory(process.pid),
            }
            paced(port, [new(-i) for i in range(10)], 2)  # what is imported with the first one
        for name, make in (("one_known", known), ("one_new", new)):
            taken, used = ([], []), [0.0, 0.0]
            for _ in range(rounds):
                for i, (port, process) in enumerate(zip(ports, (one, two), strict=True)):
                    before = processor(process.pid)
                    taken[i].extend(paced(port, [make(j) for j in range(size)]))
                    used[i] += processor(process.pid) - before
            for i, row in enumerate(rows):
                p50, p99 = (round(1e3 * float(part), 1) for part in np.quantile(taken[i], [0.5, 0.99]))
                row[name] = {"p50_ms": p50, "p99_ms": p99, "cpu_ms": round(1e3 * used[i] / rounds / size, 2)}
        for i, row in enumerate(rows):
            row["nodes_per_second"] = round(sustained(ports[i], names, 5.0))
            row["memory_after_mb"] = memory((one, two)[i].pid)
            write(row)
    workers(folder)


def workers(folder: str) -> None:
    """Throughput and memory of one worker and of four, after a few of all requests."""
    names = node_names(folder)
    for count in (1, 4):
        port = free_port()
        with service(folder, port, count) as (one, start):
            row = {"what": f"fewnode serve --workers {count}", "nodes": len(names), "start_s": round(start, 2)}
            row["nodes_per_second"] = round(sustained(port, names, 5.0))
            paced(port, [{"new_nodes": [{"id": f"new {i}", "text": "graph"}]} for i in range(50)])
            write(row | {"memory_after_mb": memory(one.pid)})


# --- kills, replaced models and malformed requests


def others(folder: str, n: int) -> list[Path]:
    """Models of the same graph whose labels were partly exchanged, each time others, so that their answers differ; kept
    beside the model."""
    from fewnode import FewShotClassifier

    made = []
    for seed in range(1, n + 1):
        made.append(Path(f"{folder}.storm{seed}"))
        if not made[-1].exists():
            model = FewShotClassifier.load(folder)
            rng, y = np.random.default_rng(seed), model.graph.y.numpy()
            y = np.where(rng.random(len(y)) < 0.6, y, rng.permutation(y))
            given = {name: value for name, value in model.get_params().items() if name != "text_encoder"}
            fresh = FewShotClassifier(**given | {"seed": seed})
            fresh.fit(model.graph.with_labels(model.graph.y.new_tensor(y)), source=model.source).save(made[-1])
    return made


def replace(model: Path, work: Path) -> None:
    """Put a model into the place of another as `fewnode fit --force` does."""
    with whole_folder(work) as fresh:
        for file in model.iterdir():
            if file.name != NAME and not file.name.startswith("labels"):
                shutil.copy2(file, fresh / file.name)


def storm(folder: str, requests: int = 10_000, kills: int = 20, swaps: int = 3) -> None:
    """Every answer is compared with what Python predicts with the model that it names, and the same classes."""
    from fewnode import FewShotClassifier

    work = Path(tempfile.mkdtemp()) / "model"
    shutil.copytree(folder, work, ignore=shutil.ignore_patterns("labels*"))
    names, draw, port = node_names(folder), random.Random(1), free_port()
    replacing = others(folder, swaps)
    models = {
        hashlib.sha256((Path(one) / NAME).read_bytes()).hexdigest()[:12]: FewShotClassifier.load(one)
        for one in (folder, *replacing)
    }
    free = set.intersection(*({names[i] for i in one.unlabelled().tolist()} for one in models.values()))
    free = [name for name in names if name in free]
    wanted: dict[tuple[str, ...], dict[str, str]] = {}  # model and classes that there are -> node -> label
    classes: dict[str, list[str]] = {}
    pool = draw.sample(names, min(300, len(names)))

    def labels(model: str) -> dict[str, str]:
        key = (model, *(f"{name}: {nodes}" for name, nodes in classes.items()))
        if key not in wanted:
            wanted[key] = dict(zip(pool, models[model].adapt(classes).predict(pool), strict=True))
        return wanted[key]

    count = dict.fromkeys(("ok", "malformed", "retried", "wrong", "lost", "error_500", "refused"), 0)
    kill_at = set(draw.sample(range(100, requests - 100), kills))
    swap_at = set(draw.sample(range(100, requests - 100), swaps))
    answered, processes = dict.fromkeys(models, 0), []

    def start() -> None:
        words = [sys.executable, "-m", "fewnode", "serve", str(work), "--port", str(port)]
        processes.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))

    def ask(*given, **more):
        """The answer, from a service that may have been killed and is started again, as systemd would do it."""
        for _ in range(3000):
            try:
                status, answer = client.ask(*given, **more)
                if status != 503:
                    return status, answer
                count["retried"] += 1
            except (OSError, http.client.HTTPException):
                count["retried"] += 1
            time.sleep(0.02)
            if processes[-1].poll() is not None:
                start()
        raise AssertionError("it does not answer any more")

    def killed_meanwhile(delay: float) -> threading.Thread:
        def kill() -> None:
            time.sleep(delay)
            processes[-1].send_signal(signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        return thread

    broken = [b"{", b'{"nodes": [[1]]}', b'{"nodes": ["nobody at all"]}', b"\xff\xfe", b'{"knots": 1}', b"[" * 5000,
              b'{"new_nodes": [{}]}', b'{"nodes": [], "threshold": "x"}', b'{"nodes": ["\\ud800"]}']  # fmt: skip
    first_labels = {model: labels(model) for model in models}  # without classes: how far the models differ
    started = time.perf_counter()
    start()
    client = Client(port)
    swapped = 0
    try:
        for i in range(requests):
            thread = killed_meanwhile(draw.random() / 50) if i in kill_at else None
            if i in swap_at:
                replace(replacing[swapped], work)
                swapped += 1
            chance = draw.random()
            if chance < 0.05:
                status, answer = ask("POST", "/v1/predict", raw=draw.choice(broken))
                count["malformed"] += status in (400, 422)
                count["wrong"] += status not in (400, 422, 500)
            elif chance < 0.06 and len(classes) < 6:
                name, nodes = f"class {i}", draw.sample(free, 3)
                status, answer = ask("POST", "/v1/classes", {"name": name, "examples": nodes})
                if status == 400 and "changes nothing" in str(answer):  # it was kept, and the answer was lost in a kill
                    status = 200
                if status == 200:
                    classes[name] = nodes
                    free = [node for node in free if node not in nodes]
                else:
                    count["refused"] += 1
            elif chance < 0.065 and classes:
                name = draw.choice(list(classes))
                status, answer = ask("DELETE", f"/v1/classes/{name.replace(' ', '%20')}")
                del classes[name]
            elif chance < 0.08:
                status, answer = ask("GET", "/v1/classes")
                there = {one["name"] for one in answer["classes"] if one["kind"] == "new"}
                count["lost"] += there != set(classes)
            else:
                nodes = draw.sample(pool, draw.randint(1, 20))
                status, answer = ask("POST", "/v1/predict", {"nodes": nodes})
                if status == 200:
                    right = labels(answer["model"])
                    answered[answer["model"]] += 1
                    got = [row["label"] for row in answer["predictions"]]
                    count["wrong"] += got != [right[node] for node in nodes]
                    count["ok"] += 1
            count["error_500"] += status >= 500
            if thread is not None:
                thread.join()
    finally:
        processes[-1].kill()
    row = {"what": "storm", "nodes": len(names), "requests": requests, **count, "kills": kills}
    row |= {"starts": len(processes), "swaps": swapped, "answers_by_model": list(answered.values())}
    row["nodes_that_differ"] = len({node for node in pool if len({one[node] for one in first_labels.values()}) > 1})
    write(row | {"seconds": round(time.perf_counter() - started)})


def table() -> str:
    """The newest rows of each kind."""
    rows = {(row["what"], row["nodes"]): row for row in map(json.loads, ROWS.read_text().splitlines())}
    lines = [
        "| | nodes | start (processor) | 1 known node, p50 / p99 (processor) | 1 new node, 5 edges | nodes a second | "
        "memory | load |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (what, nodes), row in rows.items():
        if what == "storm":
            continue
        start = f"{row['start_s']:.1f} s" + (f" ({row['start_cpu_s']:.1f} s)" if "start_cpu_s" in row else "")
        cells = [what, f"{nodes:,}", start]
        for name in ("one_known", "one_new"):
            one = row.get(name)
            told = one and f"{one['p50_ms']:.0f} / {one['p99_ms']:.0f} ms ({one['cpu_ms']:.1f} ms)"
            cells.append(told or "")
        memory = row["memory_after_mb"]
        cells += [f"{row['nodes_per_second']:,}", f"{memory['pss']:,.0f} / {memory['private_dirty']:,.0f} MB"]
        cells += [f"{row['load']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    for row in (row for (what, _), row in rows.items() if what == "storm"):
        lines += [
            "",
            f"{row['requests']:,} requests to a model of {row['nodes']:,} nodes, of which {row['malformed']:,} were "
            f"malformed, with {row['kills']} kills and {row['swaps']} replaced models: {row['wrong']} wrong answers, "
            f"{row['lost']} times a class was lost, {row['error_500']} failures of the service (status 500).",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    if "--table" in sys.argv:
        print(table())
    else:
        for model in sys.argv[2:]:
            {"speed": speed, "storm": storm, "workers": workers}[sys.argv[1]](model)
