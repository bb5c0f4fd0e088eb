/** A real server in a child process. Tests kill it and start it again on the same port and file. */
import { type RunningCli, startCli } from "../helpers/cli.ts";
import { freePort, isFree } from "../helpers/free-port.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";
import { until, within } from "./bounded.ts";
import type { ModelHome } from "./model-home.ts";
import { childrenOf, commandLineOf, hasEnded, processesWith } from "./system.ts";

export interface TestedServerOptions {
  readonly home: ModelHome;
  /** Beside the port and the store. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Default: a new file. */
  readonly store?: string;
  readonly model?: string;
}

/** Lines of the log in a report. */
const LAST_LINES = 15;

export class TestedServer implements AsyncDisposable {
  readonly url: URL;
  /** The server's folder for temporary files, not shared. */
  readonly folder: TempDir;
  readonly storePath: string;
  readonly #options: TestedServerOptions;
  #cli: RunningCli | undefined;
  /** Lines of earlier processes. */
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

  /** The exit code, once it has ended. */
  get exited(): Promise<number> {
    return this.#running.exited;
  }

  /** Log lines of the current process. */
  get lines(): readonly string[] {
    return this.#cli?.lines ?? [];
  }

  /** The end of the log, for a report. */
  get lastLines(): string {
    return [...this.#earlierLines, ...this.lines].slice(-LAST_LINES).join("\n");
  }

  /** Starts the process, and waits for nothing. */
  launch(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): void {
    if (this.#cli !== undefined) this.#earlierLines = [...this.#earlierLines, ...this.#cli.lines].slice(-LAST_LINES);
    const { home, model = "torture", args: given = [], env: givenEnv } = this.#options;
    const place = ["--host", "127.0.0.1", "-p", this.url.port, "--store", this.storePath];
    this.#cli = startCli(["serve", model, ...place, "--threads", "1", ...given, ...args], {
      env: { SCONCE_HOME: home.path, TMPDIR: this.folder.path, ...givenEnv, ...env },
    });
  }

  /**
   * Starts the process; resolves when it is ready. The front of a killed server keeps the port until its event loop turns: a large body can hold
   * the loop for seconds.
   */
  async started(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Promise<void> {
    await until(() => isFree(Number(this.url.port)), "the end of the listener of the killed server");
    this.launch(args, env);
    await within(this.#running.line("Listening on"), "the server's start");
  }

  line(part: string): Promise<string> {
    return within(this.#running.line(part), `the line ${JSON.stringify(part)}`);
  }

  signal(signal: NodeJS.Signals): void {
    this.#running.kill(signal);
  }

  /** Kills the supervisor; child processes end by themselves. Resolves when it has ended. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await within(this.exited, "the end of a killed server");
  }

  /** Ids of its child processes in a role, `engine` or `front`, that have not ended. */
  children(role: string): number[] {
    return childrenOf(this.pid).filter((pid) => !hasEnded(pid) && commandLineOf(pid).includes(`[${role}]`));
  }

  /** Processes of all starts, including orphans. */
  processes(): number[] {
    return processesWith("TMPDIR", this.folder.path).filter((pid) => !hasEnded(pid));
  }

  /** The process of a role, which may just be being started again. */
  async child(role: string): Promise<number> {
    await until(() => this.children(role).length > 0, `a process in the role ${role}`);
    return this.children(role)[0] ?? 0;
  }

  /** Answers 200 when predictions are taken; undefined while nobody answers. */
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
    // Child processes end with the supervisor. A test of orphans reports the others; here they are killed.
    for (const pid of this.processes()) process.kill(pid, "SIGKILL");
    await this.folder[Symbol.asyncDispose]();
  }

  get #running(): RunningCli {
    if (this.#cli === undefined) throw new Error("the server was not started");
    return this.#cli;
  }
}
