/**
 * Makes files that tests need, if they do not exist. `fixtures.ts libtorch` makes weights with PyTorch and libraries
 * that use it. `fixtures.ts downloads` installs programs of Debian and packages of PyPI, which needs no torch.
 * `fixtures.ts addon FILE` compiles the command line that tests run. With `--long`, each makes what only tests in
 * `test/long/` need, too: compiled weights, and the compressed libraries of executables.
 */

import { installMiniLM, preparedModel } from "../examples/minilm/prepared.ts";
import { packArm64 } from "../test/helpers/arm64.ts";
import { compiledProgram } from "../test/helpers/compiled-program.ts";
import { debianTools, fetchDebianTools } from "../test/helpers/debian-tools.ts";
import { packedLibraries } from "../test/helpers/executable.ts";
import {
  deviceTensors,
  exactPrograms,
  fewRows,
  frozenNetworks,
  guideWeights,
  mistakes,
  uncheckedModules,
  writerDevices,
} from "../test/helpers/exports.ts";
import { fakeCuda } from "../test/helpers/fake-cuda.ts";
import { fidelityCases } from "../test/helpers/fidelity-cases.ts";
import { compiledOperators } from "../test/helpers/operators.ts";
import { writeSounds } from "../test/helpers/sounds.ts";
import { fixtures, packages } from "../test/helpers/weights.ts";
import { readLibtorch } from "./setup/libtorch.ts";
import { findPython } from "./setup/python.ts";
import { line } from "./setup/report.ts";

const [, , part, ...options] = process.argv;
const isLong = options.includes("--long");

if (part === "libtorch") {
  // Tasks run in this order, two at a time. Most tasks share a Python process, which ends when no task uses it.
  // `preparedModel` has its own process, so it runs beside a task that keeps the shared process alive.
  const long = [
    preparedModel,
    fidelityCases,
    exactPrograms,
    compiledOperators,
    fakeCuda,
    packages,
    fewRows,
    writerDevices,
  ];
  const short = [fixtures, mistakes, frozenNetworks, uncheckedModules, guideWeights, deviceTensors];
  const tasks = [...(isLong ? long : []), ...short].values();
  await Promise.all([inTurn(tasks), inTurn(tasks)]);
} else if (part === "downloads") {
  const shortTools = ["docker-registry", "skopeo", "redis-server", "chromium-headless-shell"];
  const python = readLibtorch()?.python?.command ?? (await findPython())?.executable ?? "python3";
  await Promise.all([
    isLong ? installMiniLM(python) : undefined,
    fetchDebianTools(isLong ? debianTools : shortTools).then(noteProblem("Debian's tools")),
    isLong ? writeSounds().then(noteProblem("libsndfile")) : undefined,
  ]);
} else {
  await Promise.all([
    compiledProgram(options[0] ?? ""),
    isLong ? packedLibraries() : undefined,
    isLong ? packArm64().then(noteProblem("arm64")) : undefined,
  ]);
}

function noteProblem(what: string) {
  return (problem: string | undefined): void => {
    if (problem !== undefined) console.error(line(" ", "fixtures", `without ${what}: ${problem}`));
  };
}

/** Runs tasks of a shared iterator until none is left. */
async function inTurn(tasks: Iterable<() => Promise<unknown>>): Promise<void> {
  for (const task of tasks) await task();
}
