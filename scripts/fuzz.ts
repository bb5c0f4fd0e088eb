/**
 * Gives damaged files to readers until the time is over: `npm run fuzz -- NAME… [--seconds N] [--seed N]`. Without a
 * name, tries all readers. `pixels` needs clang 14 or later.
 */
import { existsSync, readFileSync, renameSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { targets } from "../test/fuzz/targets.ts";
import { fuzzPixels } from "./fuzz/pixels.ts";
import { root } from "./setup/step.ts";

/** Milliseconds between checks. An input that is still running at the next check counts as stuck. */
const STUCK_MS = 30_000;

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
  },
});
const folder = join(root, ".sconce", "fuzz");
await mkdir(folder, { recursive: true });
const [seconds, seed] = [Number(values.seconds), Number(values.seed)];
const all = [...Object.keys(targets), "pixels"];
const unknown = positionals.find((name) => !all.includes(name));
if (unknown !== undefined) throw new Error(`there is no target "${unknown}": expected some of ${all.join(", ")}`);
let faults = 0;
for (const name of positionals.length > 0 ? positionals : all) {
  if (name === "pixels") faults += (await fuzzPixels({ folder, seconds, seed })) ? 0 : 1;
  else faults += await fuzz(name);
}
process.exitCode = faults === 0 ? 0 : 1;

/**
 * Fuzzes one reader in child processes. A fault ends the child process, and the next one continues after the faulty
 * input. @returns the number of faults
 */
async function fuzz(name: string): Promise<number> {
  const progress = join(folder, `${name}.progress`);
  const untilMs = performance.now() + 1000 * seconds;
  let [at, faults] = [0, 0];
  for (let leftMs = 1000 * seconds; leftMs > 0; leftMs = untilMs - performance.now()) {
    const words = [name, String(seed), String(at), String(Math.ceil(leftMs)), progress];
    const child = Bun.spawn([process.execPath, "--no-install", join(root, "test/fuzz/child.ts"), ...words], {
      cwd: root,
      stdout: "inherit",
      stderr: "inherit",
    });
    const code = await endOf(child, progress);
    const reached = Number(readFileSync(progress, "utf8"));
    if (code === 0) {
      at = reached;
      break;
    }
    faults += 1;
    const saved = join(folder, `${name}-${seed}-${reached}`);
    if (existsSync(`${progress}.input`)) renameSync(`${progress}.input`, saved);
    console.error(
      `✗ ${name}: input ${reached} of --seed ${seed} ended with ${code}${existsSync(saved) ? `, saved as ${saved}` : ""}`,
    );
    at = reached + 1;
  }
  console.log(`${faults === 0 ? "✓" : "✗"} ${name}: ${at} inputs in ${seconds} s, --seed ${seed}, ${faults} faults`);
  return faults;
}

/** Waits for the child process, and kills it if it is stuck. @returns the exit code, or the signal */
async function endOf(child: Bun.Subprocess, progress: string): Promise<number | string> {
  let last = "";
  const timer = setInterval(() => {
    const now = existsSync(progress) ? readFileSync(progress, "utf8") : "";
    if (now === last && now !== "") child.kill("SIGKILL");
    last = now;
  }, STUCK_MS);
  await child.exited;
  clearInterval(timer);
  return child.signalCode ?? child.exitCode ?? "no code";
}
