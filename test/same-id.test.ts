/** Two clients with different API keys choose the same id. At each route, each client gets its own prediction only, also while both read. */
import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { makeKey } from "../src/cli/commands/key.ts";
import { clientOf } from "./helpers/cli.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { receiver, secret } from "./helpers/receiver.ts";
import { storeWith } from "./helpers/server.ts";

/** Repeats the letter of the input: as text, and as a large file. */
const model = modelText({
  name: '"letters"',
  input: "z.object({ letter: z.string(), length: z.int().default(0), before: z.url().optional() })",
  example: '{ letter: "a" }',
  preprocess: `async ({ before }) => {
    if (before !== undefined) await fetch(before);
    return { x: tensor(Float32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) };
  }`,
  output: "z.object({ text: z.string(), large: z.string() })",
  postprocess: `(_, { input: { letter, length } }) => ({
    text: letter.repeat(10),
    large: "data:text/plain;base64," + btoa(letter.repeat(length)),
  })`,
  demo: `{ output: z.object({ file: z.string() }), async predict(inputs, { predict, log }) {
    log(inputs[0].letter.repeat(20));
    const outputs = await predict(inputs);
    const demoOutputs = inputs.map(({ letter, length }) => ({ file: "data:text/plain;base64," + btoa(letter.repeat(length)) }));
    return { outputs, demoOutputs };
  } }`,
});

/** Characters of a large file, which is sent in many pieces. */
const LENGTH = 3_000_000;
const paths = ["/predictions", "/demo"] as const;
const letters = ["A", "B"] as const;
type Letter = (typeof letters)[number];

const keys = { A: makeKey({ name: "one" }), B: makeKey({ name: "two" }) };

const dir = fixture(tempDir);
const store = fixture(async () => storeWith(await writeModel(dir, model, "letters")));
const server = fixture(async () => {
  await Bun.write(dir.join("keys.toml"), `${keys.A.entry}\n${keys.B.entry}`);
  const args = ["--fronts", "2", "--allow-private-urls", "--webhook-secret", secret];
  return store.start(["letters", ...args, "--api-keys", dir.join("keys.toml")]);
});
const client = fixture(() => clientOf(server));

function ask(letter: Letter, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${keys[letter].secret}`);
  return client.fetch(path, { ...init, headers });
}

function send(letter: Letter, method: string, path: string, input: object, more: Record<string, string> = {}) {
  const headers = { "Content-Type": "application/json", ...more };
  return ask(letter, path, { method, headers, body: JSON.stringify([{ letter, ...input }]) });
}

/** Runs of each client's letter, as text and as base64. */
const runs = { A: ["A".repeat(9), "QUFBQUFB"], B: ["B".repeat(9), "QkJCQkJC"] } as const;

/** Expects a text to have runs of the client's letter, and none of the other client's. */
function expectOwn(letter: Letter, text: string): void {
  const owners = letters.filter((each) => runs[each].some((run) => text.includes(run)));
  expect([letter, owners]).toEqual([letter, [letter]]);
}

/** Reads an answer in two steps, so that another request can come between. */
async function slowly(answer: Response) {
  const reader = (answer.body ?? new ReadableStream<Uint8Array>()).getReader();
  const first = await reader.read();
  return {
    async rest(): Promise<string> {
      const chunks = first.value === undefined ? [] : [first.value];
      for (;;) {
        const { value } = await reader.read();
        if (value === undefined) return Buffer.concat(chunks).toString();
        chunks.push(value);
      }
    },
  };
}

const operations = z.object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) });

test("the routes of this test are all routes with an id", async () => {
  const document = operations.parse(await (await ask("A", "/openapi.json")).json());
  const found = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).flatMap((method) => (/_id\}/.test(path) ? [`${method} ${path}`] : [])),
  );
  const read = (path: string, id: string) => [
    `put ${path}/{${id}}`,
    `get ${path}/{${id}}`,
    `post ${path}/{${id}}/cancel`,
  ];
  const all = [...read("/predictions", "prediction_id"), ...read("/demo", "demo_id")];
  expect(found.toSorted()).toEqual(all.toSorted());
});

describe.each(paths)("at %s, two clients with one id", (path) => {
  const id = `same-id-for-both-${path.slice(1)}`;

  test("get their own prediction and events, also while the other client reads", async () => {
    for (const letter of letters) {
      const answer = await send(letter, "PUT", `${path}/${id}`, { length: LENGTH }, { Prefer: "wait" });
      expect(answer.status).toBe(200);
      expectOwn(letter, await answer.text());
    }
    const requests: readonly [string, Record<string, string>][] = [
      [`${path}/${id}`, {}],
      [`${path}/${id}`, { Prefer: "wait" }],
      [`${path}/${id}`, { Accept: "text/event-stream" }],
    ];
    for (const [to, headers] of requests) {
      for (const [first, second] of [letters, letters.toReversed() as [Letter, Letter]]) {
        // Both requests come before an answer has been sent.
        const [begun, other] = await Promise.all([ask(first, to, { headers }), ask(second, to, { headers })]);
        const slow = await slowly(begun);
        expect([to, begun.status, other.status]).toEqual([to, begun.status, begun.status]);
        expectOwn(second, await other.text());
        expectOwn(first, await slow.rest());
      }
    }
  }, 60_000);

  test("wait for, watch and cancel their own prediction while it runs", async () => {
    await using gate = hold();
    const running = `${id}-running`;
    for (const letter of letters) {
      const answer = await send(letter, "PUT", `${path}/${running}`, { before: gate.url(letter) });
      expect(answer.status).toBe(200);
      await gate.arrived(letter);
    }
    const events = await ask("A", `${path}/${running}`, { headers: { Accept: "text/event-stream" } });
    const watched = await slowly(events);
    const waited = ask("A", `${path}/${running}`, { headers: { Prefer: "wait" } });
    const canceled = await (await ask("B", `${path}/${running}/cancel`, { method: "POST" })).json();
    expect(canceled).toMatchObject({ status: "failed", error_message: "Canceled" });
    const other = await (await ask("A", `${path}/${running}`)).json();
    expect(other).toMatchObject({ status: expect.stringMatching(/^(pending|running)$/) });
    gate.release("A");
    const text = await (await waited).text();
    expect(JSON.parse(text)).toMatchObject({ status: "success" });
    expectOwn("A", text);
    expectOwn("A", await watched.rest());
    expect(await (await ask("B", `${path}/${running}`)).json()).toMatchObject({ error_message: "Canceled" });
  });

  test("get their own prediction by one Idempotency-Key, in JSON and as events", async () => {
    for (const [name, more] of [
      ["json", { Prefer: "wait" }],
      ["events", { Accept: "text/event-stream" }],
    ] as const) {
      const headers = { ...more, "Idempotency-Key": `one-key-for-both-${path}-${name}` };
      // The second round repeats both requests.
      for (const letter of [...letters, ...letters]) {
        const answer = await send(letter, "POST", path, { length: 100_000 }, headers);
        expect(answer.status).toBe(200);
        expectOwn(letter, await answer.text());
      }
    }
  });

  test("get their own webhook messages", async () => {
    await using to = receiver();
    const webhooked = `${id}-webhook`;
    const hooks = (letter: Letter) => ({ "Webhook-URL": to.url(`/${letter}`) });
    for (const letter of letters) await send(letter, "PUT", `${path}/${webhooked}`, {}, hooks(letter));
    const messages = await to.until(2);
    for (const letter of letters) {
      const own = messages.filter((message) => message.path === `/${letter}`);
      expect(own).toHaveLength(1);
      expectOwn(letter, JSON.stringify(own));
    }
    const idsOf = (letter: Letter) =>
      messages.filter(({ path: to }) => to === `/${letter}`).map((message) => message.id);
    expect(new Set(idsOf("A")).isDisjointFrom(new Set(idsOf("B")))).toBe(true);
  });
});

test("one id in requests of other APIs gives each client its own outputs", async () => {
  const infer = (letter: Letter) =>
    ask(letter, "/v2/models/letters/infer", {
      method: "POST",
      body: JSON.stringify({
        id: "same-id-for-both",
        inputs: [
          { name: "letter", datatype: "BYTES", shape: [1], data: [letter] },
          { name: "length", datatype: "INT64", shape: [1], data: [LENGTH] },
        ],
      }),
    });
  const call = (letter: Letter) =>
    ask(letter, "/mcp", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream" },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: "same-id-for-both",
        method: "tools/call",
        params: { name: "letters", arguments: { letter, length: LENGTH } },
      }),
    });
  for (const request of [infer, call]) {
    const answers = await Promise.all(letters.map(request));
    const [first, second] = [await slowly(answers[0] ?? new Response()), await answers[1]?.text()];
    expectOwn("B", second ?? "");
    expectOwn("A", await first.rest());
  }
});
