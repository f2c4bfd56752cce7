"""lab - what the parts in Python share: settings, runs of koboshi-train, result lines.

Settings come from the environment, as all.sh gives them: GPU_BIN (folder of koboshi and koboshi-train), GPU_TOKENS (a
token file's prefix), GPU_OUT (results, logs and runs), GPU_DEVICE (cuda, or cpu for a rehearsal).
"""
import json, os, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))

BIN, TOKENS, OUT = (os.path.abspath(os.environ[n]) for n in ("GPU_BIN", "GPU_TOKENS", "GPU_OUT"))
DEVICE = os.environ.get("GPU_DEVICE", "cuda")
WORK = os.environ.get("GPU_WORK", os.path.join(OUT, "work"))


class Results:
    """One part's result lines; a case that went well need not run again."""

    def __init__(self, part):
        os.makedirs(os.path.join(OUT, "results"), exist_ok=True)
        self.part, self.path = part, os.path.join(OUT, "results", part + ".jsonl")

    def have(self, case):
        rows = map(json.loads, open(self.path)) if os.path.exists(self.path) else ()
        return any(r["case"] == case and r["ok"] for r in rows)

    def put(self, case, ok, **more):
        line = json.dumps(dict(part=self.part, case=case, ok=bool(ok), device=DEVICE, **more))
        with open(self.path, "a") as f:
            f.write(line + "\n")
        print(line, flush=True)


def koboshi(*args):
    done = subprocess.run([os.path.join(BIN, "koboshi"), *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode:
        raise RuntimeError(f"koboshi {' '.join(args[:2])}: {done.stdout[-800:]}")
    return done.stdout


class Run:
    """A run directory that begins with imported weights; keys are koboshi-train's, dots as __."""

    def __init__(self, name, hf, **keys):
        self.dir, self.yaml = os.path.join(WORK, name), os.path.join(WORK, name + ".yaml")
        self.log = os.path.join(OUT, "logs", name + ".log")
        os.makedirs(os.path.dirname(self.log), exist_ok=True)
        subprocess.run(["rm", "-rf", self.dir], check=True)
        koboshi("ckpt", "import", "--hf", hf, "--run-dir", self.dir)
        keys = {"eval.interval": 0, "log.interval": 1, "log.tensorboard": "false", "checkpoint.interval": 1000000,
                "guard.sigma": 0, **{k.replace("__", "."): v for k, v in keys.items()}}
        self.set = "\n".join(f"{k}={v}" for k, v in keys.items())
        with open(self.yaml, "w") as f:
            f.write(open(os.path.join(self.dir, "import.yaml")).read())
            f.write(f"run: {{dir: {self.dir}}}\n" + ("" if "\ndata:" in self.set else f"data: {{train: {TOKENS}}}\n"))

    def train(self, limit_s=300, **environment):
        begin = time.time()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_"))}
        env.update(KOBOSHI_SET=self.set, **environment)
        with open(self.log, "a") as log:
            rc = subprocess.run([os.path.join(BIN, "koboshi-train"), "--config", self.yaml], env=env, stdout=log,
                                stderr=subprocess.STDOUT, timeout=limit_s).returncode
        if rc:
            raise RuntimeError(f"koboshi-train, exit {rc}: {open(self.log).read()[-600:]}")
        return time.time() - begin
