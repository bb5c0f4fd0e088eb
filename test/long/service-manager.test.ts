/** Upgrades by SIGHUP under a service manager, and as the first process of a container. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { follow, program, type RunningCli } from "../helpers/cli.ts";
import { Client } from "../helpers/client.ts";
import { datagramsAt } from "../helpers/datagrams.ts";
import { freePort } from "../helpers/free-port.ts";
import { machineEnv } from "../helpers/machine.ts";
import {
  children,
  descendants,
  isRunning,
  mayLeaveBackground,
  policies,
  SCHED_IDLE,
  SCHED_OTHER,
  until,
} from "../helpers/running.ts";
import { storeWith, type TestStore } from "../helpers/server.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

let store: TestStore;

beforeAll(async () => {
  store = await storeWith("lab");
});

afterAll(() => store[Symbol.asyncDispose]());

const { PATH = "", HOME = "" } = process.env;

interface Place {
  readonly dir: TempDir;
  readonly port: number;
  readonly adminPort?: number;
}

/** Starts a server without a terminal. @param launcher a command that runs the command after it */
function serve(launcher: readonly string[], { dir, port, adminPort }: Place): RunningCli {
  const options = ["--host", "127.0.0.1", "-p", String(port), "--store", dir.join("p.sqlite")];
  const admin = adminPort === undefined ? [] : ["--admin-port", String(adminPort)];
  const command = [...launcher, ...program.command, "serve", "lab", ...options, ...admin];
  const place = { PATH, HOME, TMPDIR: dir.path, SCONCE_HOME: store.home, NOTIFY_SOCKET: dir.join("n") };
  const env = { ...program.env, ...machineEnv, ...place };
  return follow(Bun.spawn(command, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" }));
}

test("the service manager is told of the start, of the upgrade with its new main process, and of the stop", async () => {
  await using dir = await tempDir();
  using datagrams = datagramsAt(dir.join("n"));
  const heard: string[] = [];
  const hears = (part: string) =>
    until(() => {
      heard.push(...datagrams.read());
      return heard.some((each) => each.includes(part));
    });
  const port = freePort();
  await using server = serve(["setsid"], { dir, port });
  await hears("READY=1");
  expect(heard).toEqual([`MAINPID=${server.pid}\nREADY=1`]);
  heard.length = 0;
  server.kill("SIGHUP");
  const newer = Number(/process (\d+)/.exec(await server.line("Starting the command line again"))?.[1]);
  if (mayLeaveBackground) expect(new Set(policies(newer))).toEqual(new Set([SCHED_IDLE]));
  await hears("MAINPID");
  const [reloading, ready = ""] = heard;
  expect(reloading).toMatch(/^RELOADING=1\nMONOTONIC_USEC=\d+$/);
  const pid = Number(/^MAINPID=(\d+)\nREADY=1$/.exec(ready)?.[1]);
  try {
    expect(pid).not.toBe(server.pid);
    expect(await server.exited).toBe(0);
    const client = new Client(new URL(`http://127.0.0.1:${port}`));
    expect((await client.predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
    heard.length = 0;
    process.kill(pid, "SIGTERM");
    await hears("STOPPING=1");
    expect(heard).toEqual(["STOPPING=1"]);
    await until(() => !isRunning(pid));
  } finally {
    if (isRunning(pid)) process.kill(pid, "SIGKILL");
  }
}, 60_000);

test("a stop during an upgrade also stops the newer server, which the server started", async () => {
  await using dir = await tempDir();
  await using server = serve(["setsid"], { dir, port: freePort() });
  await server.line("Listening on");
  server.kill("SIGHUP");
  const newer = Number(/process (\d+)/.exec(await server.line("Starting the command line again"))?.[1]);
  server.kill("SIGTERM");
  try {
    expect(await server.exited).toBe(0);
    await until(() => !isRunning(newer));
    expect(server.lines.filter((line) => line.includes("takes over:"))).toEqual([]);
  } finally {
    if (isRunning(newer)) process.kill(newer, "SIGKILL");
  }
}, 60_000);

const unshare = ["unshare", "-Urpf", "--mount-proc", "--kill-child"];
const hasNamespaces = Bun.spawnSync([...unshare, "true"], { stderr: "ignore" }).exitCode === 0;

test.skipIf(!hasNamespaces)(
  `the first process of a container stays, and ends when its newest server ends (with unshare${hasNamespaces ? "" : ": not permitted here"})`,
  async () => {
    await using dir = await tempDir();
    const port = freePort();
    const adminPort = freePort();
    await using container = serve(["setsid", ...unshare], { dir, port, adminPort });
    await container.line("Listening on");
    const [first = 0] = await children(container.pid);
    const client = new Client(new URL(`http://127.0.0.1:${port}`));
    const admin = new Client(new URL(`http://127.0.0.1:${adminPort}`));
    const headers = { Prefer: "wait", Connection: "close" };
    const reloaded = async () => (await admin.fetch("/reload", { method: "POST", headers })).status;
    for (const round of [1, 2, 3, 4]) {
      const seen = container.lines.length;
      if (round <= 2) process.kill(first, "SIGHUP");
      else expect(await reloaded()).toBe(200);
      await container.line("The older server has ended", seen);
      expect(isRunning(first)).toBe(true);
      expect((await client.predict([{ x: round }], { Connection: "close" })).outputs).toMatchObject([
        { y: 2 * round + 1 },
      ]);
    }
    process.kill(first, "SIGTERM");
    expect(await container.exited).toBe(0);
  },
  90_000,
);

const analyze = Bun.which("systemd-analyze");

test.skipIf(analyze === null)(
  `systemd accepts the unit of deploy/systemd (with systemd-analyze${analyze === null ? ": not here" : ""})`,
  async () => {
    await using dir = await tempDir();
    const unit = await Bun.file(new URL("../../deploy/systemd/sconce.service", import.meta.url)).text();
    // systemd-analyze requires that the program of the unit exists.
    await Bun.write(dir.join("sconce.service"), unit.replace("/usr/local/bin/sconce", "/bin/true"));
    const { exitCode, stderr } = Bun.spawnSync([analyze ?? "", "verify", dir.join("sconce.service")]);
    expect({ exitCode, stderr: stderr.toString() }).toEqual({ exitCode: 0, stderr: "" });
  },
);

test.skipIf(!mayLeaveBackground)(
  `a newer server whose older server has ended leaves the background${mayLeaveBackground ? "" : ": the system does not allow this here"}`,
  async () => {
    await using dir = await tempDir();
    const launcher = ["env", "SCONCE_STARTED_AGAIN=1", "chrt", "--idle", "0"];
    await using server = serve(launcher, { dir, port: freePort() });
    await server.line("Listening on");
    const processes = await descendants(server.pid);
    expect(processes.length).toBeGreaterThanOrEqual(3);
    expect(new Set(processes.flatMap(policies))).toEqual(new Set([SCHED_OTHER]));
  },
);
