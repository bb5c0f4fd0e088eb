/** The Model Context Protocol with the official clients: the model as a tool, refusals and cancellation. */
import { describe, expect, test } from "bun:test";
import Ajv from "ajv/dist/2020";
import { z } from "zod";
import { tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { mcpClient, post, revision, send } from "./helpers/mcp.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["lab", "picture"], "lab");
const inputsSchema = z.array(z.record(z.string(), z.unknown()));
const canceled = () => server.client.metric('sconce_predictions_total{status="failed",reason="canceled"}');

describe.each(["modern", "legacy"] as const)("for a client of the %s revision", (era) => {
  test("the model is a tool with its schemas", async () => {
    await using connection = await mcpClient(server.url, era);
    const { tools } = await connection.client.listTools();
    const schema = z.record(z.string(), z.unknown());
    const { input_schema: inputSchema, output_schema: outputSchema } = z
      .object({ input_schema: schema, output_schema: schema })
      .parse(await server.client.json("/"));
    expect<unknown>(tools).toEqual([
      {
        name: "lab",
        title: "lab",
        description: "Doubles a number and adds one.",
        inputSchema,
        outputSchema,
        annotations: { readOnlyHint: true },
      },
    ]);
    expect(connection.client.getServerVersion()).toMatchObject({ name: "sconce", title: "lab" });
  });

  test("the output equals that of POST /predictions to the last bit", async () => {
    await using connection = await mcpClient(server.url, era);
    for (const x of [1 / 3, -0.1, 1e-30, 123_456_789.125]) {
      const { outputs: [output] = [] } = await server.client.predict([{ x }]);
      const { structuredContent, content, isError } = await connection.client.callTool({
        name: "lab",
        arguments: { x },
      });
      expect({ output: structuredContent, isError }).toEqual({ output, isError: undefined });
      expect(content).toEqual([{ type: "text", text: JSON.stringify(output) }]);
    }
  });

  test("an input that fails gives a result with its message", async () => {
    await using connection = await mcpClient(server.url, era);
    const result = await connection.client.callTool({ name: "lab", arguments: { x: 1, fail: "input" } });
    expect(result).toMatchObject({ isError: true, content: [{ type: "text", text: "x is not wanted" }] });
  });

  test("arguments that do not match the schema give a result with each fault", async () => {
    await using connection = await mcpClient(server.url, era);
    const { isError, content } = await connection.client.callTool({ name: "lab", arguments: { x: "1", steps: 0.5 } });
    const { detail, errors } = await server.client.refused([{ x: "1", steps: 0.5 }]);
    const faults = errors?.map((fault) => `${fault.pointer.slice("/0".length)}: ${fault.detail}`);
    expect([isError, faults?.length, detail]).toEqual([true, 2, expect.any(String)]);
    expect(content).toEqual([{ type: "text", text: faults?.join("\n") ?? "" }]);
  });

  test("a call of an unknown tool is an error that names the known tool", async () => {
    await using connection = await mcpClient(server.url, era);
    const call = connection.client.callTool({ name: "bal", arguments: { x: 1 } });
    expect(await call.catch((error) => error)).toMatchObject({
      code: -32602,
      message: expect.stringContaining('"lab"'),
    });
  });

  test("a stream that closes cancels the prediction", async () => {
    await using gate = hold();
    await using connection = await mcpClient(server.url, era);
    const before = await canceled();
    const leave = new AbortController();
    const options = { signal: leave.signal };
    const call = connection.client.callTool({ name: "lab", arguments: { x: 1, before: gate.url("a") } }, options);
    const ended = call.catch((error: unknown) => error);
    await gate.arrived("a");
    // With the older revision of the protocol, a client that aborts a call keeps the stream open, so the test closes
    // the whole client.
    if (era === "modern") leave.abort();
    else await connection.client.close();
    expect(await ended).toBeInstanceOf(Error);
    await until(async () => (await canceled()) !== before);
    expect(await canceled()).toBe(before + 1);
  });

  test("a picture in the output is also content of the result", async () => {
    await using pictures = await server.beside("picture");
    const [input = {}] = inputsSchema.parse(await pictures.client.json("/examples"));
    await using connection = await mcpClient(pictures.url, era);
    const { structuredContent, content } = await connection.client.callTool({ name: "picture", arguments: input });
    const { outputs: [output] = [] } = await pictures.client.predict([input]);
    expect(structuredContent).toEqual(output ?? {});
    const [head, data = ""] = String(output?.swatch).split(",");
    expect(head).toBe("data:image/png;base64");
    expect(content).toEqual([
      { type: "text", text: JSON.stringify({ ...output, swatch: "image/png, see content 1" }) },
      { type: "image", mimeType: "image/png", data },
    ]);
  });

  test("a full queue refuses calls, and nothing else", async () => {
    await using gate = hold();
    await using full = await server.beside("lab", { maxQueuedItems: 1 });
    await full.client.create([{ x: 1, before: gate.url("a") }]);
    await using connection = await mcpClient(full.url, era);
    expect((await connection.client.listTools()).tools.length).toBe(1);
    const error = await connection.client.callTool({ name: "lab", arguments: { x: 1 } }).catch((refused) => refused);
    expect(error).toMatchObject({ code: -32000, data: { code: "queue_full", retryAfter: expect.any(Number) } });
    expect(await full.client.metric('sconce_requests_rejected_total{code="429",cause="queue"}')).toBe(1);
    gate.release("a");
  });
});

test("an input that is no object is wrapped in one as an argument, and so is an output for older clients", async () => {
  await using dir = await tempDir();
  const text = modelText({
    input: "z.union([z.object({ x: z.number() }), node])",
    output: "z.number()",
    preprocess:
      "(given) => ({ x: tensor(Float32Array.of(given.x ?? 5), []), steps: tensor(BigInt64Array.of(0n), []) })",
    postprocess: "({ y }) => y.data[0]",
  });
  const node = "const node = z.object({ get next() { return node.optional(); } });";
  await using store = await storeWith(await writeModel(dir, text.replace("export default", `${node}\nexport default`)));
  await using numbers = await store.serve("small");
  for (const era of ["modern", "legacy"] as const) {
    await using connection = await mcpClient(numbers.url, era);
    const { tools } = await connection.client.listTools();
    const isValid = new Ajv({ strict: false }).compile(tools[0]?.inputSchema ?? {});
    expect([{ input: { x: 1 } }, { input: { next: { next: {} } } }, { x: 1 }, {}].map((args) => isValid(args))).toEqual(
      [true, true, false, false],
    );
    const call = (input: unknown) => connection.client.callTool({ name: "small", arguments: { input } });
    const output = (y: number) => (era === "modern" ? y : { result: y });
    expect(await call({ x: 1 })).toMatchObject({ structuredContent: output(3) });
    expect(await call({ next: { next: {} } })).toMatchObject({ structuredContent: output(11) });
    const [fault] = (await call("none")).content;
    expect(fault).toMatchObject({ type: "text", text: expect.stringMatching(/^\/input: /) });
  }
});

describe("over HTTP", () => {
  test.each(["GET", "DELETE"])("%s is answered with 405", async (method) => {
    const response = await server.client.fetch("/mcp", { method });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
  });

  test("pages of a foreign origin are refused", async () => {
    const headers = { Origin: "https://page.example" };
    const response = await send(server.url, "tools/list", {}, { headers });
    expect([response.status, await response.json()]).toMatchObject([403, { id: null, error: { code: -32600 } }]);
  });

  test.each([
    ["another name in the header", { "Mcp-Name": "other" }, revision, -32020],
    ["another method in the header", { "Mcp-Method": "tools/list" }, revision, -32020],
    ["an unknown revision", { "MCP-Protocol-Version": "2099-01-01" }, "2099-01-01", -32022],
  ])("%s is refused", async (_, headers, version, code) => {
    const meta = { "io.modelcontextprotocol/protocolVersion": version };
    const response = await send(server.url, "tools/call", { name: "lab", arguments: { x: 1 } }, { headers, meta });
    expect([response.status, await response.json()]).toMatchObject([400, { error: { code } }]);
  });

  test.each([
    ["no JSON", "{", 400, -32700],
    ["a list of messages", "[]", 400, -32700],
    ["too large", JSON.stringify("x".repeat(2 ** 20)), 413, -32600],
  ])("a body that is %s is refused", async (_, body, status, code) => {
    await using small = await server.beside("lab", { maxBodyBytes: 2 ** 19 });
    const response = await post(small.url, body);
    expect([response.status, await response.json()]).toMatchObject([status, { id: null, error: { code } }]);
  });

  test("arguments that are nested too deeply are a fault of the call", async () => {
    const deep = `{"x":${"[".repeat(25_000)}${"]".repeat(25_000)}}`;
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab","arguments":${deep}}}`;
    const response = await post(server.url, body, { "MCP-Protocol-Version": "2025-11-25" });
    expect(await response.text()).toContain('"isError":true');
  });
});
