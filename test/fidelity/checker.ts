/**
 * Runs a folder of cases in child processes. If a process crashes or hangs, that is the verdict on its case; a new
 * process continues with the following case.
 */
import { join } from "node:path";
import { CaseFolder } from "./case.ts";
import { message, type Verdict } from "./verdict.ts";

const child = join(import.meta.dir, "case-child.ts");
/**
 * Milliseconds without output after which a process counts as stuck. A small program runs for milliseconds, a large
 * network for seconds.
 */
const SILENCE_MS = 600_000;
/**
 * Milliseconds without output after which a process that compiles counts as stuck. Compiling takes seconds to minutes,
 * on a busy machine much longer.
 */
const COMPILING_MS = 1_800_000;

/** Yields the verdicts on the runs of a folder of cases. @param device device of the sessions, such as `cpu` */
export async function* checked(path: string, device = "cpu"): AsyncGenerator<Verdict> {
  const { cases } = await CaseFolder.open(path);
  for (let first = 0; first < cases.length; ) {
    let at = first;
    let title = "";
    const running = Bun.spawn([process.execPath, "--no-install", child, path, String(first), device], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      // Compiled programs are cached in the folder of cases, and removed with it.
      env: { ...process.env, SCONCE_CACHE_DIR: join(path, "cache") },
    });
    const errors = running.stderr.text();
    let isStuck = false;
    let isCompiling = false;
    const stop = () => {
      isStuck = true;
      running.kill("SIGKILL");
    };
    let timer = setTimeout(stop, SILENCE_MS);
    for await (const line of linesOf(running.stdout)) {
      // Lines that are no JSON come from operators that print.
      if (!line.startsWith("{")) continue;
      clearTimeout(timer);
      const said = message.parse(JSON.parse(line));
      if ("begins" in said) at = said.begins;
      else if ("isCompiling" in said) isCompiling = said.isCompiling;
      else {
        title = said.verdict.run;
        yield said.verdict;
      }
      timer = setTimeout(stop, isCompiling ? COMPILING_MS : SILENCE_MS);
    }
    clearTimeout(timer);
    const code = await running.exited;
    if (code === 0 && !isStuck) return;
    const broken = cases[at];
    if (broken === undefined) throw new Error(`${child} failed: ${await errors}`);
    const detail = `${running.signalCode ?? `code ${code}`}${title && `, after ${title}`}: ${(await errors).slice(-600)}`;
    const { name, group, source } = broken;
    const outcome = isStuck ? (isCompiling ? "uncompiled" : "stuck") : "died";
    yield { case: name, group, run: "", outcome, detail, source };
    first = at + 1;
  }
}

/** Yields the lines of a stream, without an incomplete last line. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of stream) {
    const lines = (text + decoder.decode(part, { stream: true })).split("\n");
    text = lines.pop() ?? "";
    yield* lines;
  }
}
