/** Files in outputs, sent as raw bytes by their own URLs. */
import { describe, expect, test } from "bun:test";
import { LargeText } from "../src/predictions/large-text.ts";
import { listIn } from "../src/predictions/outcome-list.ts";
import { problemOf } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { sendRaw } from "./helpers/wire.ts";

const pageOf = (length: number) => `<p>${"0123456789".repeat(length / 10)}</p>`;
const smallPage = pageOf(10);
const model = modelText({
  name: '"pages"',
  input: "z.object({ x: z.number(), before: z.url().optional() })",
  preprocess: `async ({ x, before }) => {
    if (before !== undefined) await fetch(before);
    return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) };
  }`,
  output: "z.object({ pages: z.array(z.object({ page: z.string() })), text: z.string(), code: z.string() })",
  postprocess: `(_, { input: { x } }) => {
    if (x < 0) throw new Error("no such page");
    const page = btoa("<p>" + "0123456789".repeat(x / 10) + "</p>");
    return { pages: [{ page: "data:text/html;charset=utf-8;base64," + page }], text: 'a "data:" \\\\\\\\', code: "data:text/javascript;base64,YWxlcnQoMSk=" };
  }`,
});

const store = fixture(async () => {
  await using dir = await tempDir();
  return await storeWith(await writeModel(dir, model));
});
const server = fixture(() => store.serve("pages"));

/** Path of the outputs of a prediction. Each number is the length of a page that the model returns as a file. */
async function pathFor(...lengths: number[]): Promise<string> {
  const { prediction_id: id } = await server.client.predict(lengths.map((x) => ({ x })));
  return `/predictions/${id}/outputs`;
}

const get = (path: string) => server.client.fetch(path);

test("a file has its bytes, its media type, and headers that prevent scripts", async () => {
  const response = await get(`${await pathFor(0, 10)}/1/pages/0/page`);
  expect(await response.text()).toBe(smallPage);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    "content-type": "text/html;charset=utf-8",
    "content-length": `${smallPage.length}`,
    "content-disposition": 'inline; filename="page-1.htm"',
    "x-content-type-options": "nosniff",
    "content-security-policy": expect.stringMatching(/^sandbox; default-src 'none'/),
  });
});

test("a script is served as plain text, so no page of the same origin can run it", async () => {
  const { headers } = await get(`${await pathFor(0)}/0/code`);
  expect(headers.get("content-type")).toBe("text/plain; charset=utf-8");
  expect(headers.get("x-content-type-options")).toBe("nosniff");
});

test("a file is found whatever the prediction's id and the host are", async () => {
  const path = "/predictions/the-first-outputs";
  const headers = { "Content-Type": "application/json", Prefer: "wait" };
  await server.client.fetch(path, { method: "PUT", headers, body: JSON.stringify([{ x: 10 }]) });
  expect(await (await get(`${path}/outputs/0/pages%2F0/page?x=outputs/0/y`)).text()).toBe(smallPage);
  const bytes = `GET ${path}/outputs/0/pages/0/page HTTP/1.1\r\nHost: outputs.localhost\r\nConnection: close\r\n\r\n`;
  expect(await sendRaw(server.url, bytes)).toEndWith(`\r\n\r\n${smallPage}`);
});

test("a file is found below the name of its model", async () => {
  const path = `/models/pages${await pathFor(10)}/0/pages/0/page`;
  expect(await (await get(path)).text()).toBe(smallPage);
});

test("a file can be read once its output is complete", async () => {
  await using gate = hold();
  const { prediction_id: id } = await server.client.create([{ x: 10 }, { x: 10, before: gate.url("a") }]);
  const path = `/predictions/${id}/outputs`;
  let first = await get(`${path}/0/pages/0/page`);
  await until(async () => {
    if (first.status === 404) first = await get(`${path}/0/pages/0/page`);
    return first.status !== 404;
  });
  expect(await first.text()).toBe(smallPage);
  expect((await problemOf(await get(`${path}/1/pages/0/page`))).detail).toBe("input 1 has no output yet");
});

test("files of a demo are found in outputs and demo outputs", async () => {
  const { prediction_id: id } = await server.client.demos.predict([{ x: 10 }]);
  const both = ["outputs", "demo_outputs"].map(async (list) =>
    (await get(`/demo/${id}/${list}/0/pages%2F0%2Fpage`)).text(),
  );
  expect(await Promise.all(both)).toEqual([smallPage, smallPage]);
});

describe.each([10, 1_000_000])("a file of %d bytes", (length) => {
  const page = pageOf(length);

  test("is sent whole", async () => {
    expect(await (await get(`${await pathFor(length)}/0/pages/0/page`)).text()).toBe(page);
  });

  test("has its length in the answer to HEAD", async () => {
    const path = `${await pathFor(length)}/0/pages/0/page`;
    const answer = await sendRaw(server.url, `HEAD ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    expect(answer.toLowerCase()).toContain(`content-length: ${page.length}\r\n`);
    expect(answer).toEndWith("\r\n\r\n");
  });
});

test.each([
  ["2/pages/0/page", 'there is no input "2": this has 2, and the first is 0'],
  ["1/pages/0/page", "input 1 failed: it has no output"],
  ["0/pages/1/page", "the output has no pages/1"],
  ["0/pages/0/page/length", "the output has no pages/0/page/length"],
  ["0/toString", "the output has no toString"],
  ["0/pages", "pages is not a file"],
  ["0", "the output is not a file"],
])("a path that is not a file (%s) gives 404 with the reason", async (place, detail) => {
  const problem = await problemOf(await get(`${await pathFor(10, -1)}/${place}`));
  expect(problem).toMatchObject({ status: 404, type: "urn:sconce:problem:file_not_found", detail });
});

test("memory of large files is released, also if the client leaves", async () => {
  const path = `${await pathFor(1_000_000)}/0/pages/0/page`;
  const held = () => server.client.metric('sconce_memory_bytes{part="answers"}');
  for await (const _ of (await get(path)).body ?? []) break;
  await (await get(path)).bytes();
  await until(async () => (await held()) === 0);
});

test("elements of a list are found in the text of its JSON, whatever they contain", () => {
  const value = {
    error: 'a "list":[1] \\',
    empty: [],
    list: [[1, [2]], { a: ["]", '\\"', "語"] }, "x,y", null, -1.5, {}],
    last: [true],
  };
  const members = JSON.stringify(value).slice(1, -1);
  const bytes = new TextEncoder().encode(members);
  // The text in two pieces, split at every byte.
  const cut = [...bytes.keys()].map((at) => new LargeText([bytes.subarray(0, at), bytes.subarray(at)]));
  for (const text of [members, new LargeText([members]), ...cut]) {
    for (const name of ["empty", "list", "last"] as const) {
      const elements = value[name].map((element) => JSON.stringify(element));
      expect(listIn(text, name)).toEqual(elements);
      for (const [i, element] of elements.entries()) expect(listIn(text, name, i)?.[i]).toBe(element);
      expect(listIn(text, name, elements.length)?.[elements.length]).toBeUndefined();
    }
    expect(listIn(text, "none")).toBeUndefined();
  }
});
