/** A real server in a child process. Tests kill it, and start it again on the same port and store. */
import { type RunningCli, startCli } from "../helpers/cli.ts";
import { type TempDir, tempDir } from "../helpers/fixture.ts";
import { freePort, isFree } from "../helpers/free-port.ts";
import { inRole } from "../helpers/running.ts";
import { until, within } from "./bounded.ts";
import type { ModelHome } from "./model-home.ts";
import { hasEnded, processesWith } from "./system.ts";

export interface TestedServerOptions {
  readonly home: ModelHome;
  /** Arguments besides the port and the store. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Value of `--store`; default: a new file. */
  readonly store?: string;
  readonly model?: string;
}

/** Number of log lines in a report. */
const LAST_LINES = 15;

export class TestedServer implements AsyncDisposable {
  readonly url: URL;
  /** A folder for the server's temporary files, which no other process uses. */
  readonly folder: TempDir;
  readonly storePath: string;
  readonly #options: TestedServerOptions;
  #cli: RunningCli | undefined;
  /** Last log lines of the processes before the current one. */
  #earlierLines: string[] = [];

  static async start(options: TestedServerOptions): Promise<TestedServer> {
    const server = new TestedServer(options, await tempDir(), freePort());
    try {
      await server.started();
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  private constructor(options: TestedServerOptions, folder: TempDir, port: number) {
    this.#options = options;
    this.folder = folder;
    this.storePath = options.store ?? folder.join("predictions.sqlite");
    this.url = new URL(`http://127.0.0.1:${port}`);
  }

  get pid(): number {
    return this.#running.pid;
  }

  /** Resolves with the exit code when the process has ended. */
  get exited(): Promise<number> {
    return this.#running.exited;
  }

  /** Log lines of the current process. */
  get lines(): readonly string[] {
    return this.#cli?.lines ?? [];
  }

  /** The last log lines, for a report. */
  get lastLines(): string {
    return [...this.#earlierLines, ...this.lines].slice(-LAST_LINES).join("\n");
  }

  /** Starts the process, and does not wait until it is ready. */
  launch(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): void {
    if (this.#cli !== undefined) this.#earlierLines = [...this.#earlierLines, ...this.#cli.lines].slice(-LAST_LINES);
    const { home, model = "torture", args: given = [], env: givenEnv } = this.#options;
    const place = ["--host", "127.0.0.1", "-p", this.url.port, "--store", this.storePath];
    this.#cli = startCli(["serve", model, ...place, "--threads", "1", ...given, ...args], {
      env: { SCONCE_HOME: home.path, TMPDIR: this.folder.path, ...givenEnv, ...env },
    });
  }

  /**
   * Starts the process, and resolves when it is ready. First waits for the port: after a kill, an HTTP process keeps
   * it until its event loop turns, which a large body can delay for seconds.
   */
  async started(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Promise<void> {
    await until(() => isFree(Number(this.url.port)), "the end of the listener of the killed server");
    this.launch(args, env);
    await within(this.#running.line("Listening on"), "the server's start");
  }

  signal(signal: NodeJS.Signals): void {
    this.#running.kill(signal);
  }

  /** Kills the supervisor, and resolves when it has ended. Its child processes end by themselves. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await within(this.exited, "the end of a killed server");
  }

  /** Ids of the running child processes in a role: `engine` or `front`, which is an HTTP process. */
  children(role: "engine" | "front"): number[] {
    return inRole(this.pid, role).filter((pid) => !hasEnded(pid));
  }

  /** Ids of the running processes of all starts, including orphans. */
  processes(): number[] {
    return processesWith("TMPDIR", this.folder.path).filter((pid) => !hasEnded(pid));
  }

  /** Id of the first child process in a role. Waits for it if it is being started. */
  async child(role: "engine" | "front"): Promise<number> {
    await until(() => this.children(role).length > 0, `a process in the role ${role}`);
    return this.children(role)[0] ?? 0;
  }

  /** Status of GET /health/ready: 200 if the server accepts predictions. Undefined if nobody answers. */
  async readiness(): Promise<number | undefined> {
    try {
      const response = await fetch(new URL("/health/ready", this.url), {
        headers: { Connection: "close" },
        signal: AbortSignal.timeout(5000),
      });
      await response.arrayBuffer();
      return response.status;
    } catch {
      return undefined;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cli?.[Symbol.asyncDispose]();
    // Ends what is left. Child processes should have ended with the supervisor; test/long/processes.test.ts tests that.
    for (const pid of this.processes()) process.kill(pid, "SIGKILL");
    await this.folder[Symbol.asyncDispose]();
  }

  get #running(): RunningCli {
    if (this.#cli === undefined) throw new Error("the server was not started");
    return this.#cli;
  }
}
