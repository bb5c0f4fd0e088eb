/** Malicious multipart forms are refused before they exhaust the server's memory or block its event loop. */
import { expect, spyOn, test } from "bun:test";
import { z } from "../src/author/z.ts";
import { partsOf } from "../src/base/multipart.ts";
import { expectedKinds } from "../src/pipeline/inputs/expected-kinds.ts";
import { inputsOfForm } from "../src/pipeline/inputs/form-body.ts";
import { loopTurns } from "./helpers/loop-turns.ts";

const expected = expectedKinds(z.strictObject({ numbers: z.array(z.number()) }));

/** The body of a form with one part for each Content-Disposition. `value` is the content of every part. */
function formOf(dispositions: readonly string[], value = "1"): Uint8Array<ArrayBuffer> {
  const parts = dispositions.map((each) => `--b\r\nContent-Disposition: form-data; ${each}\r\n\r\n${value}\r\n`);
  return new TextEncoder().encode(`${parts.join("")}--b--`);
}

test("the number of parameters of a part is limited", async () => {
  const headOf = (parameters: number) => `name=numbers${";a=a".repeat(parameters)}`;
  expect(String(await inputsOfForm([formOf([headOf(1)])], "b", expected))).toBe('[{"numbers":[1]}]');
  for (const head of [headOf(12), headOf(1250)])
    expect(() => partsOf(formOf([head]), "b").next()).toThrow(
      "the body is not the form that its Content-Type announces",
    );
});

test("the event loop turns while a form with many parts is read", async () => {
  const form = formOf(Array.from({ length: 9998 }, () => `name=numbers; filename="${"n".repeat(1000)}"`));
  using turns = loopTurns();
  const body = await inputsOfForm([form], "b", expected);
  expect([typeof body, turns.count > 3]).toEqual(["object", true]);
});

test("a large text field is not parsed while the form is read", async () => {
  const text = `[${"1,".repeat(150_000)}1]`;
  using parse = spyOn(JSON, "parse");
  const body = await inputsOfForm([formOf(["name=numbers"], text)], "b", expected);
  expect(Buffer.concat(Array.isArray(body) ? body : []).toString()).toBe(`[{"numbers":${text}}]`);
  expect(parse.mock.calls.filter(([json]) => json.length >= text.length)).toEqual([]);
});
