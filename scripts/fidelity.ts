/**
 * Compares sconce with PyTorch on operators, random programs and architectures. The exit code is 0 if no answer is
 * wrong.
 */
import { existsSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Making } from "../test/fidelity/maker.ts";
import { report } from "../test/fidelity/report.ts";
import { type Counted, runSuite } from "../test/fidelity/suite.ts";
import { tempDir } from "../test/helpers/fixture.ts";
import { run } from "./setup/command.ts";
import { readLibtorch } from "./setup/libtorch.ts";
import { root, state } from "./setup/step.ts";

const suites = {
  operators: "each sample of PyTorch's operator database, plain and decomposed",
  programs: "random programs with free sizes, guards and constants",
  architectures: "networks of timm, torchvision, transformers and torchaudio",
} as const;
type Suite = keyof typeof suites;

/** Default number of trials in a suite: pairs of operator and dtype, programs, or networks. */
const counts: Readonly<Record<Suite, number>> = {
  operators: 10_000,
  programs: 2000,
  architectures: 1000,
};

const usage = `USAGE fidelity [SUITE…] [--seed N] [--count N] [--only NAME] [--after NAME]
                [--forms FORM,…] [--torch FOLDER] [--device DEVICE] [--json FILE]

  --seed N     decides samples, programs and inputs (default: a new one)
  --count N    of the operators (with a dtype each), random programs or networks (default: all, 2000, all)
  --only NAME  cases whose name begins so; for networks also NAME,NAME…
  --after NAME cases behind NAME, as after a run that was cut short (same seed and count)
  --forms FORM,…
               forms of networks: exported, traced, compiled; of programs: plain, decomposed,
               traced, scripted, compiled (default: all)
  --torch FOLDER
               packages of another torch, which exports the programs (default: that of the set-up)
  --device DEVICE
               device of the sessions, e.g. cuda:0 (default: cpu); PyTorch computes on the CPU
  --json FILE  all refusals and wrong answers, in FILE-operators.json and so on

SUITES (default: all)

${Object.entries(suites)
  .map(([name, title]) => `  ${name}: ${title}`)
  .join("\n")}`;

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: {
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    count: { type: "string" },
    only: { type: "string" },
    after: { type: "string" },
    forms: { type: "string" },
    torch: { type: "string" },
    device: { type: "string", default: "cpu" },
    json: { type: "string" },
    keep: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit();
}
if (positionals.some((name) => !isSuite(name)) || !/^\d+$/.test(values.seed) || !/^\d+$/.test(values.count ?? "0")) {
  console.error(usage);
  process.exit(2);
}
console.log(`seed ${values.seed}`);
const names = Object.keys(suites).filter(isSuite);
const chosen = names.filter((name) => positionals.length === 0 || positionals.includes(name));
let isClean = true;
for (const name of chosen) isClean = (await suite(name)) && isClean;
process.exitCode = isClean ? 0 : 1;

function isSuite(name: string): name is Suite {
  return name in suites;
}

/** Runs a suite of comparisons. @returns whether all answers are right */
async function suite(name: Suite): Promise<boolean> {
  const began = performance.now();
  await using dir = await tempDir();
  const parts = availableParallelism();
  const packages = await packagesOf(name);
  const makings = Array.from({ length: parts }, (_, part) =>
    makingOf(name, { out: values.keep ?? dir.path, packages, part, parts, forms: values.forms }),
  );
  const counted = await runSuite(makings, {
    keep: values.keep !== undefined,
    device: values.device,
    async onFolder(soFar) {
      progress(`${name}: ${soFar.programs} programs, ${soFar.wrong.length} wrong answers`);
      await writeVerdicts(name, soFar);
    },
  });
  progress("");
  console.log(report(name, counted));
  console.log(`${((performance.now() - began) / 1000).toFixed(0)} s\n`);
  return counted.wrong.length === 0;
}

interface Part {
  readonly out: string;
  readonly packages: string;
  readonly part?: number;
  readonly parts?: number;
  readonly forms?: string | undefined;
}

function makingOf(name: Suite, { out, packages, part = 0, parts = 1, forms }: Part): Making {
  const only = values.only === undefined ? [] : [`--only=${values.only}`];
  const formed = forms === undefined ? [] : [`--forms=${forms}`];
  const after = values.after === undefined ? [] : [`--after=${values.after}`];
  return {
    script: `${name}.py`,
    args: [
      values.seed,
      String(part),
      String(parts),
      values.count ?? String(counts[name]),
      ...only,
      ...after,
      ...formed,
    ],
    out: join(out, name, String(part)),
    packages,
    torch: values.torch,
  };
}

async function writeVerdicts(
  name: Suite,
  { programs, wrong, beyond, refused, skipped, counts }: Counted,
): Promise<void> {
  if (values.json === undefined) return;
  await Bun.write(
    `${values.json}-${name}.json`,
    JSON.stringify({ programs, wrong, beyond, refused, skipped, counts: [...counts] }, null, 1),
  );
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[2K${text}`);
}

function packagesOf(name: Suite): Promise<string> {
  return installed(name === "architectures" ? "architectures.txt" : "requirements.txt");
}

/**
 * Installs a list of Python packages into a folder of the checkout, if it is not there yet. torch comes from the
 * set-up. @returns the folder
 */
async function installed(list: string): Promise<string> {
  const path = join(root, "test", "fidelity", list);
  const text = await Bun.file(path).text();
  const folder = join(state, "fidelity", list.replace(".txt", ""));
  const stamp = join(folder, "packages.txt");
  if (existsSync(stamp) && (await Bun.file(stamp).text()) === text) return folder;
  rmSync(folder, { recursive: true, force: true });
  const python = readLibtorch()?.python?.command ?? "python3";
  const quiet = ["--quiet", "--no-deps", "--disable-pip-version-check"];
  await run([python, "-m", "pip", "install", ...quiet, "--target", folder, "-r", path], { verbose: false });
  // Removes libraries compiled for CUDA: they do not load with torch for CPUs, and no network needs them.
  for (const pattern of ["torchaudio/lib/*.so", "torchvision/*.so"]) {
    for await (const file of new Bun.Glob(pattern).scan(folder)) rmSync(join(folder, file));
  }
  await Bun.write(stamp, text);
  return folder;
}
