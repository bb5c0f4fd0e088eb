/**
 * The text of an error in a model's code goes to the log, and to no client. The text of an InputError goes to the
 * client.
 */
import { beforeAll, expect, test } from "bun:test";
import { bundleModel } from "../src/package/code/bundle.ts";
import { loadModel } from "../src/package/code/load.ts";
import { clientOf } from "./helpers/cli.ts";
import { eventsOf } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { mcpClient } from "./helpers/mcp.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { receiver, secret } from "./helpers/receiver.ts";
import { storeWith } from "./helpers/server.ts";

const path = "/srv/secret/words.txt";
const message = `ENOENT: no such file ${path}`;

/**
 * A model whose input names the hook or schema that throws. A helper function of model.ts throws, so a stack has two
 * lines of that file.
 */
const text = modelText({
  name: '"leaky"',
  input: `z.object({ text: z.string().refine((text) => fail("schema", text) === undefined) })`,
  output: `z.object({
    vector: z.array(z.number()),
    mood: z.codec(z.string(), z.string(), { decode: (mood) => mood, encode: (mood) => fail("encode", mood) ?? mood }),
  })`,
  openai: `{ embeddings: { input: "text", output: "vector" } }`,
  example: '{ text: "calm" }',
  preprocess: `({ text }) => {
    fail("preprocess", text);
    if (text === "unwanted") throw new InputError("write in ${path}", { field: "text" });
    const x = text === "predict" ? 5 : text === "unwanted in predict" ? 6 : 1;
    return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) };
  }`,
  predict: `async ({ x }) => {
    if (x.data.includes(5)) fail("predict", "predict");
    if (x.data.includes(6)) throw new InputError("write otherwise", { field: "text" });
    const rows = x.data.length;
    return { y: tensor(new Float32Array(rows), [rows]), together: tensor(new BigInt64Array(rows), [rows]) };
  }`,
  postprocess: `(_, { input: { text } }) => (fail("postprocess", text), { vector: [1, 2], mood: text })`,
  batchSize: "4",
  demo: `{
    output: z.string(),
    predict: async (inputs, { predict }) => {
      fail("demo", inputs[0].text);
      return { outputs: await predict(inputs), demoOutputs: inputs.map(({ text }) => text) };
    },
  }`,
}).replace("import { defineModel,", "import { InputError, defineModel,");
const source = `${text}
function fail(place, text) {
  if (text === place) throw new Error("${message}");
}
`;

const dir = fixture(tempDir);
beforeAll(async () => {
  await writeModel(dir, source);
});
const store = fixture(() => storeWith(dir.path));
const server = fixture(async () => {
  const options = ["--webhook-secret", secret, "--allow-private-urls"];
  return store.start(["leaky", ...options]);
});
const client = fixture(() => clientOf(server));

const places = ["preprocess", "predict", "postprocess"] as const;

test.each(places)(
  "an error of %s: clients read only that the model failed; the log has text, place and stack",
  async (at) => {
    const seen = server.lines.length;
    const answer = await client.predict([{ text: "calm" }, { text: at }]);
    expect(answer).toMatchObject({
      error_message: `1 of 2 inputs failed: input 1: the model failed in ${at}`,
      errors: [{ index: 1, message: `the model failed in ${at}` }],
    });
    const line = await server.line(message, seen);
    expect(line).toMatch(/prediction \S+, input 1: \w+ failed: .* \(model\.ts:\d+\)/);
    expect(line).toContain(answer.prediction_id);
    expect(await server.line("at fail (model.ts:", seen)).toBeDefined();
    expect(await server.line(`at ${at} (model.ts:`, seen)).toBeDefined();
  },
);

test.each([
  ["encode", "the model failed"],
  ["unwanted in predict", "write otherwise"],
])("an error at %s", async (text, expected) => {
  expect((await client.predict([{ text }])).errors).toMatchObject([{ index: 0, message: expected }]);
});

test("an error in the code of the input schema counts as a fault of the input, and its text is in the log", async () => {
  const seen = server.lines.length;
  const { status, errors } = await client.refused([{ text: "calm" }, { text: "schema" }]);
  expect({ status, errors }).toMatchObject({ status: 422, errors: [{ pointer: "/1" }] });
  expect(JSON.stringify(errors)).not.toContain(message);
  expect(await server.line(message, seen)).toContain("The input schema failed: ");
});

test("an InputError reaches the client unchanged, with the pointer of its field, and is not logged", async () => {
  const seen = server.lines.length;
  const { errors } = await client.predict([{ text: "calm" }, { text: "unwanted" }]);
  expect(errors).toEqual([{ index: 1, message: `write in ${path}`, pointer: "/1/text" } as never]);
  expect(await client.metric('sconce_items_total{status="failed",reason="input"}')).toBeGreaterThan(0);
  await client.predict([{ text: "preprocess" }]);
  await server.line(message, seen);
  expect(server.lines.slice(seen).join("\n")).not.toContain("write in");
});

test.each([...places, "encode", "demo", "schema"])("an error of %s shows no path in any API", async (text) => {
  await using to = receiver();
  const answers: unknown[] = [];
  const read = async (response: Response) => answers.push(await response.text());
  const inputs = [{ text }];
  await read(await client.post(inputs, { Prefer: "wait", "Webhook-URL": to.url() }));
  if (text !== "schema" && text !== "demo") answers.push(...(await to.until(1)));
  const events = await client.stream(inputs);
  if (events.ok) for await (const event of eventsOf(events)) answers.push(event);
  else await read(events);
  await read(await client.demos.post(inputs, { Prefer: "wait", "Webhook-URL": to.url("/demo") }));
  const bytes = { name: "text", datatype: "BYTES", shape: [1], data: [text] };
  await read(await client.at("/v2/models/leaky/infer").post({ inputs: [bytes] }));
  await read(await client.at("/v1/embeddings").post({ model: "leaky", input: text }));
  await using connection = await mcpClient(client.url, "modern");
  answers.push(await connection.client.callTool({ name: "leaky", arguments: { text } }));
  const all = JSON.stringify(answers);
  expect(answers.length).toBeGreaterThanOrEqual(6);
  expect(all).toContain("the model failed");
  for (const secret of ["secret", "ENOENT", "model.ts", dir.path]) expect(all).not.toContain(secret);
  for (const { data } of to.received) expect(JSON.stringify(data)).not.toContain("secret");
});

test("a model that an earlier version built, and that imports SconceError, loads", async () => {
  const old = `import { SconceError } from "sconce";\nif (typeof SconceError !== "function") throw new Error("none");`;
  const { code } = await bundleModel(dir.path);
  expect((await loadModel(`${old}\n${code}`, "old")).name).toBe("leaky");
});

test("sconce predict shows the whole error with its place", async () => {
  const { code, stderr } = await store.cliHere(["predict", "leaky", "text=preprocess"]);
  expect(code).toBe(1);
  expect(stderr).toContain(`preprocess failed: ${message} (model.ts:`);
});
