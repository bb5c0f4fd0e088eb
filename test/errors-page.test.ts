/** docs/errors.md lists every error code of the source, with its HTTP status. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { errorCodes, SconceError } from "../src/base/errors.ts";
import { reasonOf } from "../src/base/failure-reason.ts";
import { problemCodes, problemOf, problemStatus } from "../src/http/problem.ts";

const page = await Bun.file(join(import.meta.dir, "../docs/errors.md")).text();

/** The table below a heading of docs/errors.md: the cells of each row, by the error code in its first cell. */
function tableOf(heading: string): Map<string, string[]> {
  const section = page.split(/^## /m).find((each) => each.startsWith(heading)) ?? "";
  const rows = [...section.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)];
  return new Map(rows.map(([, code = "", cells = ""]) => [code, cells.split(" | ")]));
}

const refused = tableOf("Refused requests");
const failed = tableOf("Failed inputs");
const commands = tableOf("Commands and servers");

test("Refused requests: every problem code with its status", () => {
  const expected = problemCodes.map((code) => [code, String(problemStatus({ code }))]);
  expect(Object.fromEntries([...refused].map(([code, [status]]) => [code, status]))).toEqual(
    Object.fromEntries(expected),
  );
});

test("Failed inputs: every code with the reason of the metric", () => {
  const listed = [...failed].map(([code, [reason]]) => [code, reason]);
  const known = [...failed.keys()].flatMap((code) => errorCodes.filter((each) => each === code));
  expect(listed).toEqual(known.map((code) => [code, `\`${reasonOf(code)}\``]));
});

test("every error code is a refusal, a failed input or a failed command", () => {
  const own = errorCodes.filter((code) => problemOf(new SconceError(code, "")).code === "internal");
  expect([...failed.keys(), ...commands.keys()].sort()).toEqual(own.sort());
});

test("every row names a cause and a fix", () => {
  const rows = [...refused.values(), ...failed.values()].map((cells) => cells.slice(1)).concat([...commands.values()]);
  expect(rows.filter((cells) => cells.length !== 2 || cells.some((cell) => cell === ""))).toEqual([]);
});
