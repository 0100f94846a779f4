"""What the benchmarks share: the machine's peaks, who else uses it, processes that stop and go on."""
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TICKS = os.sysconf("SC_CLK_TCK")
BUSY = 0.06  # of all cores: more than this by others, and nothing is concluded


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(base, "ptc-bench")
    os.makedirs(path, exist_ok=True)
    return path


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


def run(command, **options):
    """Its standard output and error as text; ends the program if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        fail(f"failed: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def build_peak():
    """The micro-benchmark, built for this CPU; its path."""
    path = os.path.join(cache_dir(), "peak")
    run([os.environ.get("CC", "cc"), "-std=c17", "-O3", "-march=native", "-ffp-contract=fast",
         "-pthread", os.path.join(HERE, "peak.c"), "-o", path])
    return path


def peak(path, threads, what):
    """Rates of `peak --only what` on that many threads: GFLOP/s of fma, GB/s of the others."""
    rows = json.loads(run([path, f"--threads={threads}", "--only", what, "--json"]))["rows"]
    return next(row for row in rows if row["threads"] == threads)


# --- who else is there


def busy_ticks():
    """Ticks that all cores spent on anything, time stolen by the host included."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, soft, steal, *_ = map(int, file.readline().split()[1:])
    return user + nice + system + irq + soft + steal


def own_ticks(pid):
    """Of a process, its threads, and the children it waited for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return sum(map(int, fields[11:15]))


class Watch:
    """The share of the machine that processes other than |pids| and this one take meanwhile."""

    def __init__(self, *pids):
        self.pids = (os.getpid(), *pids)
        self.begin, self.busy = time.monotonic(), busy_ticks()
        self.own = sum(map(own_ticks, self.pids))

    def others(self):
        took = max(time.monotonic() - self.begin, 1e-3)
        spent = busy_ticks() - self.busy - (sum(map(own_ticks, self.pids)) - self.own)
        return max(0.0, spent / TICKS / took / os.cpu_count())


def idle_share(seconds=2.0):
    watch = Watch()
    time.sleep(seconds)
    return watch.others()


def describe():
    with open("/proc/cpuinfo") as file:
        names = re.findall(r"model name\s*: (.*)", file.read())
    name = names[0] if names else "CPU"
    return f"{name}, {os.cpu_count()} cores; load {' '.join(f'{x:.2f}' for x in os.getloadavg())}"


# --- contenders that take turns


def peak_rss(pid):
    """Bytes; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return int(re.search(r"VmHWM:\s*(\d+)", file.read()).group(1)) * 1024
    except (FileNotFoundError, AttributeError):
        return 0


class Torch:
    """torch_worker.py, stopped between turns: its idle threads may spin, and take the other's time.
    It and its processes are a group of their own."""

    def __init__(self, python, model, mode, threads, environment):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, "torch_worker.py"), model, mode, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), **environment})
        self.pid = self.process.pid
        self.about = self.read()
        os.killpg(self.pid, signal.SIGSTOP)

    def pids(self):
        """Its own and its children's."""
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
            return [self.pid, *map(int, file.read().split())]

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            fail(f"PyTorch ended:\n{self.log.read()[-2000:]}")
        return json.loads(line)

    def steps(self, count):
        """Seconds of each."""
        os.killpg(self.pid, signal.SIGCONT)
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        seconds = self.read()
        os.killpg(self.pid, signal.SIGSTOP)
        return seconds

    def close(self):
        os.killpg(self.pid, signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


class Ptc:
    """`ptc run`, stopped between turns by SIGSTOP. Counted is the time from the end of a step to the
    end of the next; the step that a stop fell into, and the first two, do not count."""

    POLL_S = 0.02  # the metrics are looked at no more often: that takes time from the run

    def __init__(self, command, run_dir):
        self.metrics, self.log = os.path.join(run_dir, "metrics.jsonl"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.pid = self.process.pid
        self.wait_for(2)
        self.process.send_signal(signal.SIGSTOP)

    def rows(self):
        """Those of steps; their "seconds" count from the run's start."""
        try:
            with open(self.metrics) as file:
                rows = [json.loads(line) for line in file if line.endswith("}\n")]
            return [row for row in rows if row["kind"] == "train"]
        except FileNotFoundError:
            return []

    def wait_for(self, count):
        seen = -1
        while True:
            size = os.path.getsize(self.metrics) if os.path.exists(self.metrics) else 0
            if size != seen and len(self.rows()) >= count:
                return
            seen = size
            if self.process.poll() is not None:
                self.log.seek(0)
                fail(f"ptc run ended:\n{self.log.read()[-2000:]}")
            time.sleep(self.POLL_S)

    def steps(self, count):
        done = len(self.rows())
        self.process.send_signal(signal.SIGCONT)
        self.wait_for(done + count + 1)
        self.process.send_signal(signal.SIGSTOP)
        ends = [row["seconds"] for row in self.rows()[done:done + 1 + count]]
        return [end - begin for begin, end in zip(ends, ends[1:])]

    def close(self):
        self.process.kill()
        self.process.wait()


def median(values):
    return statistics.median(values)


def spread(values):
    return f"{min(values):.3f}..{max(values):.3f}"
