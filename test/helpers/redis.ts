/**
 * A Redis server on a Unix socket, with a temporary folder. The program is Debian's redis-server, or
 * SCONCE_TEST_REDIS, e.g. the path of a valkey-server.
 */
import { Redis } from "ioredis";
import { matchIn } from "./child-output.ts";
import { debianTool } from "./debian-tools.ts";
import { tempDir } from "./fixture.ts";

const given = process.env.SCONCE_TEST_REDIS;
const tool = given === undefined ? debianTool("redis-server") : { command: given, env: {} };

/** Whether a Redis server is installed. Without it, tests with Redis are skipped. */
export const hasRedis = tool !== undefined;

/**
 * Whether the server is built with TLS. The server started here exits at once, because it lacks TLS or a certificate;
 * its output says which.
 */
export function hasRedisTls(): boolean {
  if (tool === undefined) return false;
  const { stdout } = Bun.spawnSync([tool.command, "--port", "0", "--tls-port", "1"], { env: tool.env });
  return !stdout.includes("TLS support");
}

export interface TestRedis extends AsyncDisposable {
  /** Value of `--queue` for this server. */
  readonly url: string;
  /** A Redis client for the test. Its commands wait while the server is down. */
  readonly client: Redis;
  /** Stops the process: it answers nothing, but its connections stay open. */
  pause(): void;
  resume(): void;
  /** Ends the process. The next start finds the data that it had written to disk. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  start(): Promise<void>;
}

/** Starts a server. @param args further arguments, e.g. `--appendonly yes` */
export async function startRedis(...args: readonly string[]): Promise<TestRedis> {
  const dir = await tempDir();
  const path = dir.join("redis.sock");
  const place = ["--port", "0", "--unixsocket", path, "--dir", dir.path, "--save", "", "--daemonize", "no"];
  const launch = async () => {
    const child = spawnRedis([...place, ...args]);
    await matchIn(child.stdout, /ready to accept connections/i);
    return child;
  };
  let child = await launch();
  const client = new Redis({ path, protocol: 2, retryStrategy: () => 50, maxRetriesPerRequest: null });
  // Without a listener, ioredis prints each error. A failed command rejects with the same error.
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
