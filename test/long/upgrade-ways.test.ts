/** Upgrades of servers with two HTTP processes, with TLS, and in an executable file: no request fails. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type BuildsStore, storeOfBuilds } from "../helpers/builds.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { follow, type RunningCli, startCli } from "../helpers/cli.ts";
import { digitsExecutable } from "../helpers/executable.ts";
import { freePort } from "../helpers/free-port.ts";
import { cacheFolder } from "../helpers/machine.ts";
import { until } from "../helpers/running.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

let store: BuildsStore;

beforeAll(async () => {
  store = await storeOfBuilds();
});

afterAll(() => store[Symbol.asyncDispose]());

/**
 * Pause of each client in milliseconds while a newer server starts in the background: clients without a pause would
 * delay the start.
 */
const PAUSE_MS = 30;

/** Four clients. Each sends one request after another, each request on a new connection. */
class Load {
  readonly statuses: string[] = [];
  /** Pause of each client after an answer, in milliseconds. */
  pauseMs = PAUSE_MS;
  #isOver = false;
  readonly #clients: Promise<unknown>;

  constructor(origin: string, input: unknown) {
    const init = { method: "POST", headers: { "Content-Type": "application/json", Prefer: "wait" } };
    const send = async () => {
      const tls = { rejectUnauthorized: false };
      const body = JSON.stringify([input]);
      const answer = await fetch(`${origin}/predictions`, { ...init, body, keepalive: false, tls });
      return ((await answer.json()) as { status: string }).status;
    };
    const client = async () => {
      while (!this.#isOver) {
        this.statuses.push(await send().catch(String));
        if (this.pauseMs > 0) await Bun.sleep(this.pauseMs);
      }
    };
    this.#clients = Promise.all(Array.from({ length: 4 }, client));
  }

  async more(count: number): Promise<void> {
    const before = this.statuses.length;
    await until(() => this.statuses.length >= before + count);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#clients;
  }
}

interface Upgraded {
  readonly start: (args: readonly string[]) => RunningCli;
  readonly dir: TempDir;
  readonly port: number;
  readonly input: (origin: string) => Promise<unknown>;
  readonly more?: readonly string[];
  readonly scheme?: "http" | "https";
}

/** Upgrades a server under load, and checks that every request succeeds. */
async function upgrade({ start, dir, port, input, more = [], scheme = "http" }: Upgraded): Promise<void> {
  const options = ["--host", "127.0.0.1", "-p", String(port), "--store", dir.join("p.sqlite")];
  await using first = start([...options, ...more]);
  await first.line("Listening on");
  const origin = `${scheme}://127.0.0.1:${port}`;
  const load = new Load(origin, await input(origin));
  await load.more(100);
  await using second = start([...options, ...more]);
  await first.line("The newer server takes over");
  load.pauseMs = 0;
  await second.line("Listening on");
  await load.more(100);
  expect(await first.exited).toBe(0);
  await second.line("The older server has ended");
  await load.more(100);
  await load.stop();
  expect(load.statuses.filter((status) => status !== "success")).toEqual([]);
}

const lab = (dir: TempDir) => (args: readonly string[]) =>
  startCli(["serve", "lab:v1", ...args], { env: { SCONCE_HOME: store.home, TMPDIR: dir.path } });

test("an upgrade of a server with two HTTP processes", async () => {
  await using dir = await tempDir();
  await upgrade({ start: lab(dir), dir, port: freePort(), input: async () => ({ x: 1 }), more: ["--fronts", "2"] });
}, 120_000);

test("an upgrade of a server with TLS", async () => {
  await using dir = await tempDir();
  await makeCertificates(dir);
  const more = ["--tls-cert", dir.join("server.pem"), "--tls-key", dir.join("server.key")];
  await upgrade({ start: lab(dir), dir, port: freePort(), input: async () => ({ x: 1 }), more, scheme: "https" });
}, 120_000);

test("an upgrade of an executable file", async () => {
  await using dir = await tempDir();
  await using server = await digitsExecutable();
  const env = { HOME: dir.path, TMPDIR: dir.path, SCONCE_CACHE_DIR: cacheFolder };
  const start = (args: readonly string[]) =>
    follow(Bun.spawn([server.path, ...args], { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" }));
  const input = async (origin: string) => ((await (await fetch(`${origin}/examples`)).json()) as unknown[])[0];
  await upgrade({ start, dir, port: freePort(), input });
}, 300_000);
