/** Runs Python scripts in forks of one process that has imported torch. */
import { join } from "node:path";
import { z } from "zod";
import { pythonVariables } from "../../scripts/setup/libtorch.ts";
import { linesOf } from "../fidelity/checker.ts";

/** Script of the process that forks. Its settings change the results of the scripts that it runs. */
export const runnerScript = join(import.meta.dir, "script_runner.py");

/** Variables with which AOTInductor compiles faster. The compiled code runs only a few times. */
export const fastCompilation = {
  AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL: "O0",
  // Without this variable, Inductor compiles a file to test each instruction set of the processor.
  TORCHINDUCTOR_VEC_ISA_OK: "1",
  TORCHINDUCTOR_CACHE_DIR: join(import.meta.dir, "../../.sconce/inductor"),
};

export interface PythonWithTorch {
  readonly command: string;
  /** First folder of PYTHONPATH; null for none. */
  readonly path: string | null;
}

const ended = z.tuple([z.string(), z.number()]);

/** The running process; undefined while no script runs. */
let shared: ScriptRunner | undefined;

/** Runs a script with a folder as its argument. Simultaneous calls share a process. @throws if the script fails */
export function runScript(python: PythonWithTorch, script: string, folder: string): Promise<void> {
  shared ??= new ScriptRunner(python);
  return shared.run(script, folder);
}

class ScriptRunner {
  readonly #process: Bun.Subprocess<"pipe", "pipe", "pipe">;
  readonly #errors: Promise<string>;
  /**
   * Callbacks by the script's folder. Each receives the script's exit code, or undefined if the process ended before
   * the script.
   */
  readonly #waiting = new Map<string, (code: number | undefined) => void>();

  constructor(python: PythonWithTorch) {
    this.#process = Bun.spawn([python.command, runnerScript], {
      // OpenMP would start threads, and only a process with one thread can fork safely.
      env: { ...process.env, ...pythonVariables(python), ...fastCompilation, OMP_NUM_THREADS: "1" },
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    this.#errors = this.#process.stderr.text();
    void this.#listen();
  }

  async run(script: string, folder: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    this.#waiting.set(folder, resolve);
    this.#process.stdin.write(`${JSON.stringify([script, folder])}\n`);
    void this.#process.stdin.flush();
    const code = await promise;
    this.#waiting.delete(folder);
    if (this.#waiting.size === 0) await this.#end();
    if (code === 0) return;
    const errors = code === undefined ? await this.#errors : await Bun.file(`${folder}.errors`).text();
    throw new Error(`${script} failed: ${errors}`);
  }

  async #listen(): Promise<void> {
    for await (const line of linesOf(this.#process.stdout)) {
      const [folder, code] = ended.parse(JSON.parse(line));
      this.#waiting.get(folder)?.(code);
    }
    for (const resolve of this.#waiting.values()) resolve(undefined);
  }

  async #end(): Promise<void> {
    shared = undefined;
    await this.#process.stdin.end();
    await this.#process.exited;
  }
}
