/** Reports to a service manager such as systemd, and the unit of deploy/systemd. */
import { expect, test } from "bun:test";
import { type RunningCli, startCli } from "../helpers/cli.ts";
import { datagramsAt } from "../helpers/datagrams.ts";
import { fixture } from "../helpers/fixture.ts";
import { until } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

const store = fixture(() => storeWith("lab"));

/** Starts a server without a terminal. */
function serve(dir: TempDir): RunningCli {
  const args = ["serve", "lab", "--host", "127.0.0.1", "-p", "0", "--store", "memory"];
  const env = { TMPDIR: dir.path, SCONCE_HOME: store.home, NOTIFY_SOCKET: dir.join("n") };
  return startCli(args, { env, detached: true });
}

/** The kernel's monotonic clock, as Python reads it. */
function monotonicUsec(): number {
  const { stdout } = Bun.spawnSync(["python3", "-c", "import time; print(time.monotonic_ns() // 1000)"]);
  return Number(stdout.toString());
}

test("the service manager is told of the start, of a reload, and of the stop", async () => {
  await using dir = await tempDir();
  using datagrams = datagramsAt(dir.join("n"));
  const heard: string[] = [];
  const hears = (part: string) =>
    until(() => {
      heard.push(...datagrams.read());
      return heard.some((each) => each.includes(part));
    });
  await using server = serve(dir);
  await hears("READY=1");
  expect(heard).toEqual([`MAINPID=${server.pid}\nREADY=1`]);
  heard.length = 0;
  const before = monotonicUsec();
  server.kill("SIGHUP");
  await hears("READY=1");
  expect(heard).toEqual([expect.stringMatching(/^RELOADING=1\nMONOTONIC_USEC=\d+$/), "READY=1"]);
  // systemd refuses a time of another clock.
  const usec = Number(heard[0]?.split("=").at(-1));
  expect(usec).toBeGreaterThan(before);
  expect(usec).toBeLessThan(monotonicUsec());
  heard.length = 0;
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
  await hears("STOPPING=1");
  expect(heard).toEqual(["STOPPING=1"]);
}, 60_000);

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
