"""fault - strike a rank while it is inside a collective, and watch processes go.

usage: fault.py strike SIGNAL PID     waits until PID's beat says so, at most 20 s; one JSON line
       fault.py gone PID...           waits until none is left, at most 120 s; the time, or nothing
"""
import glob, json, os, signal, struct, sys, time


def beat_of(pid):
    """The mapped file of struct kb_beat, as the rank's own namespaces show it."""
    for link in glob.glob(f"/proc/{pid}/map_files/*"):
        path = os.readlink(link)
        if "/beat." in path:
            return f"/proc/{pid}/root{path}"
    return None


def state_of(path):
    with open(path, "rb") as f:
        v = struct.unpack_from("<11q", f.read(96))
    return dict(step=v[5], entered=v[8], done=v[9])


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def strike(name, pid):
    path, limit, at = beat_of(pid), time.time() + 20, {}
    while path and time.time() < limit:
        at = state_of(path)
        if at["entered"] == at["done"] + 1 or at["entered"] > at["done"]:
            break
    now = time.time()
    os.kill(pid, getattr(signal, "SIG" + name))
    print(json.dumps(dict(at, time=now, inside=bool(at) and at["entered"] > at["done"])))


def gone(pids):
    limit = time.time() + 120
    while any(alive(p) for p in pids):
        if time.time() > limit:
            return 1
        time.sleep(0.01)
    print(time.time())


if sys.argv[1] == "strike":
    strike(sys.argv[2], int(sys.argv[3]))
else:
    sys.exit(gone([int(p) for p in sys.argv[2:]]))
