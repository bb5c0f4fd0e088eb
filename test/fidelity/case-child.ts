/**
 * `case-child.ts FOLDER FIRST DEVICE` runs the cases of a folder from index FIRST on, and prints progress and verdicts
 * as lines of JSON. The process is separate because a case may crash it.
 */

import type { Tensor } from "../../src/author/tensor.ts";
import { messageOf } from "../../src/base/errors.ts";
import { compiledProgram } from "../../src/cli/build/plain/compiled-program.ts";
import { type NativeSession, openSession } from "../../src/engine/native/binding.ts";
import { itemsOf } from "../helpers/tensors.ts";
import { type Case, CaseFolder, type Run } from "./case.ts";
import { compare, leavesOf } from "./compare.ts";
import { type Outcome, right, type Verdict } from "./verdict.ts";

const [path = "", first = "0", device = "cpu"] = process.argv.slice(2);
const folder = await CaseFolder.open(path);
for (const [i, each] of folder.cases.entries()) {
  if (i < Number(first)) continue;
  say({ begins: i });
  for (const pack of each.pack) await runCase(each, pack);
}

async function runCase(each: Case, pack: boolean): Promise<void> {
  const label = (run: Run) => (each.pack.length > 1 ? `${run.title}, ${pack ? "packed" : "not packed"}` : run.title);
  const report = (run: Run, outcome: Outcome, detail = "") => {
    const source = right.includes(outcome) ? "" : each.source;
    const verdict: Verdict = { case: each.name, group: each.group, run: label(run), outcome, detail, source };
    say({ verdict });
  };
  let session: NativeSession;
  try {
    const file = folder.file(each);
    const path = each.compile ? await compiled(file) : file;
    session = await openSession({ path, device, threads: 1, pack, ...each.batched });
  } catch (error) {
    const why = messageOf(error);
    for (const run of each.runs) report(run, run.raises === undefined ? "refusedAtLoad" : "bothRefuse", why);
    return;
  }
  try {
    for (const run of each.runs) await runOnce(each, run, session, report);
  } finally {
    await session.dispose();
  }
}

async function compiled(file: string): Promise<string> {
  say({ isCompiling: true });
  try {
    return await compiledProgram(file);
  } finally {
    say({ isCompiling: false });
  }
}

async function runOnce(
  each: Case,
  run: Run,
  session: NativeSession,
  report: (run: Run, outcome: Outcome, detail?: string) => void,
): Promise<void> {
  let got: (Tensor | string)[];
  try {
    const inputs = folder.inputs(run);
    got =
      each.batched === undefined ? leavesOf(await session.call("forward", inputs)) : await session.run(itemsOf(inputs));
  } catch (error) {
    report(run, run.raises === undefined ? "refusedAtRun" : "bothRefuse", messageOf(error));
    return;
  }
  if (run.raises !== undefined) {
    report(run, "notRefused", run.raises);
    return;
  }
  const { tolerance, float64Distance, compare: by } = each;
  const exact = folder.exact(run, float64Distance);
  const result = compare(got, folder.expected(run), {
    tolerance,
    exact,
    shapesOnly: by === "shapes",
    isOnGpu: device !== "cpu",
  });
  report(run, result.kind, "how" in result ? result.how : "");
}

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
