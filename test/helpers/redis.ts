/**
 * A Redis server on a Unix socket with a temporary folder: Debian's redis-server, or `SCONCE_TEST_REDIS`, e.g. a
 * valkey-server.
 */
import { Redis } from "ioredis";
import { debianTool } from "./debian-tools.ts";
import { tempDir } from "./temp-dir.ts";

const given = process.env.SCONCE_TEST_REDIS;
const tool = given === undefined ? debianTool("redis-server") : { command: given, env: {} };

/** Whether the server is installed. Names of skipped tests mention it. */
export const hasRedis = tool !== undefined;

/** Whether the server supports TLS. The started server always exits at once: it lacks TLS or a certificate. */
export function hasRedisTls(): boolean {
  if (tool === undefined) return false;
  const { stdout } = Bun.spawnSync([tool.command, "--port", "0", "--tls-port", "1"], { env: tool.env });
  return !stdout.includes("TLS support");
}

export interface TestRedis extends AsyncDisposable {
  /** Value for `--queue`. */
  readonly url: string;
  /** A Redis client for tests. Its commands wait while the server is down. */
  readonly client: Redis;
  /** Stops answering, but keeps connections open. */
  pause(): void;
  resume(): void;
  /** Stops the server. Its data on disk survives until the next start. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  start(): Promise<void>;
}

/** @param args more arguments, e.g. `--appendonly yes` */
export async function startRedis(...args: readonly string[]): Promise<TestRedis> {
  const dir = await tempDir();
  const path = dir.join("redis.sock");
  const place = ["--port", "0", "--unixsocket", path, "--dir", dir.path, "--save", "", "--daemonize", "no"];
  const launch = async () => {
    const child = spawnRedis([...place, ...args]);
    await saying(child.stdout, /ready to accept connections/i);
    return child;
  };
  let child = await launch();
  const client = new Redis({ path, protocol: 2, retryStrategy: () => 50, maxRetriesPerRequest: null });
  // Failed commands reject with the same error.
  client.on("error", () => {});
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill("SIGCONT");
    child.kill(signal);
    await child.exited;
  };
  return {
    url: `redis://${path}`,
    client,
    pause: () => child.kill("SIGSTOP"),
    resume: () => child.kill("SIGCONT"),
    stop,
    start: async () => {
      child = await launch();
    },
    async [Symbol.asyncDispose]() {
      client.disconnect();
      await stop("SIGKILL");
      await dir[Symbol.asyncDispose]();
    },
  };
}

export function spawnRedis(args: readonly string[]): Bun.Subprocess<"ignore", "pipe", "inherit"> {
  if (tool === undefined) throw new Error("redis-server is not here; npm test fetches it");
  return Bun.spawn([tool.command, ...args], {
    env: { ...process.env, ...tool.env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
}

/** Resolves once the output matches. Keeps reading afterwards, or the pipe would fill and block the server. */
export async function saying(output: ReadableStream<Uint8Array>, expected: RegExp): Promise<void> {
  const said = Promise.withResolvers<void>();
  void (async () => {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of output) {
      text = (text + decoder.decode(chunk, { stream: true })).slice(-4000);
      if (expected.test(text)) said.resolve();
    }
    said.reject(new Error(`redis-server ended:\n${text}`));
  })();
  await said.promise;
}
