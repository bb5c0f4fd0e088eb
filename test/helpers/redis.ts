/** Debian's redis-server on a Unix socket, with a folder of its own. */
import { Redis } from "ioredis";
import { debianTool } from "./debian-tools.ts";
import { tempDir } from "./temp-dir.ts";

/** Whether it is here; the name of a test that is skipped says that it needs it. */
export const hasRedis = debianTool("redis-server") !== undefined;

export interface TestRedis extends AsyncDisposable {
  /** For `--queue`. */
  readonly url: string;
  /** A client that looks into it; it waits while the server is away. */
  readonly client: Redis;
  /** Stops answering, without closing a connection. */
  pause(): void;
  resume(): void;
  /** Ends it; what it keeps on disk is there at the next start. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  start(): Promise<void>;
}

/** @param args beside the socket, e.g. `--appendonly yes` */
export async function startRedis(...args: readonly string[]): Promise<TestRedis> {
  const tool = debianTool("redis-server");
  if (tool === undefined) throw new Error("redis-server is not here; npm test fetches it");
  const dir = await tempDir();
  const path = dir.join("redis.sock");
  const launch = async () => {
    const place = ["--port", "0", "--unixsocket", path, "--dir", dir.path, "--save", "", "--daemonize", "no"];
    const child = Bun.spawn([tool.command, ...place, ...args], {
      env: { ...process.env, ...tool.env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    await listening(child.stdout);
    return child;
  };
  let child = await launch();
  const client = new Redis({ path, protocol: 2, retryStrategy: () => 50, maxRetriesPerRequest: null });
  // Each command is told as well.
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

/** Reads on after that, or the server would wait for a reader at some time. */
async function listening(output: ReadableStream<Uint8Array>): Promise<void> {
  const ready = Promise.withResolvers<void>();
  void (async () => {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of output) {
      text = (text + decoder.decode(chunk, { stream: true })).slice(-4000);
      if (/ready to accept connections/i.test(text)) ready.resolve();
    }
    ready.reject(new Error(`redis-server ended:\n${text}`));
  })();
  await ready.promise;
}
