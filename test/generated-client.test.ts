/**
 * A client whose types are generated from /openapi.json compiles under strict types, and answers of the server match
 * the types. `npm run clients` has clients of other generators.
 */
import { beforeAll, expect, test } from "bun:test";
import { symlink } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { run } from "./helpers/child-output.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

const client = `
import createClient from "openapi-fetch";
import type { components, paths } from "./api.ts";

type Input = components["schemas"]["Input"];
type Output = components["schemas"]["Output"];
type DemoOutput = components["schemas"]["DemoOutput"];
type Fault = { index: number; message: string };

export async function roundTrip(baseUrl: string) {
  const { GET, POST } = createClient<paths>({ baseUrl });
  const inputs: Input[] = [{ x: 1.5, steps: 0 }];
  const header = { Prefer: "wait", "Cancel-After": 30 };

  const created = await POST("/predictions", { body: inputs, params: { header: { "Cancel-After": 30.5 } } });
  if (created.error) throw new Error(created.error.detail);
  const path = { prediction_id: created.data.prediction_id };
  const read = await GET("/predictions/{prediction_id}", { params: { path, header: { Prefer: "wait" } } });
  if (read.data?.status !== "success") throw new Error(read.data?.status);
  const outputs: Output[] = read.data.outputs;
  const finished: string = read.data.finished_at;
  const y: number | undefined = outputs[0]?.y;
  const canceled = await POST("/predictions/{prediction_id}/cancel", { params: { path } });
  const status: "pending" | "running" | "success" | "failed" | undefined = canceled.data?.status;

  const body: Input[] = [...inputs, { x: 2, steps: 0, fail: "preprocess" }];
  const failed = await POST("/predictions", { body, params: { header } });
  const partial: (Output | null)[] = failed.data?.partial_outputs ?? [];
  const message: string = failed.data?.status === "failed" ? failed.data.error_message : "";
  const faults: Fault[] = failed.data?.errors ?? [];

  const shown = await POST("/demo", { body: inputs, params: { header } });
  if (shown.error) throw new Error(shown.error.detail);
  const demoOutputs: DemoOutput[] = shown.data.status === "success" ? shown.data.demo_outputs : [];
  const logs: string = shown.data.logs;
  const again = await GET("/demo/{demo_id}", { params: { path: { demo_id: shown.data.demo_id } } });

  const bodySerializer = (fields: object) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
    return form;
  };
  const formed = await POST("/predictions", { body: { x: 2, steps: 0 }, bodySerializer, params: { header } });

  // @ts-expect-error: x must be a number
  const refused = await POST("/predictions", { body: [{ x: "one", steps: 0 }] });
  const problem: components["schemas"]["Problem"]["type"] | undefined = refused.error?.type;
  // @ts-expect-error: no problem has this type
  const other: boolean = problem === "urn:sconce:problem:none";
  const unknown = await GET("/demo/{demo_id}", { params: { path: { demo_id: "none" } } });

  return {
    y,
    finished: Number.isNaN(Date.parse(finished)),
    status,
    message,
    partial: partial.map((output) => output?.y ?? null),
    faults: faults.map(({ index }) => index),
    demo: demoOutputs.map((output) => output.y),
    logs,
    again: again.data?.status,
    formed: formed.data?.status === "success" ? formed.data.outputs[0]?.y : undefined,
    problem,
    pointers: refused.error?.errors?.map(({ pointer }) => pointer),
    other,
    unknown: unknown.error?.status,
  };
}
`;

const compilerOptions = {
  target: "ESNext",
  module: "Preserve",
  lib: ["ESNext", "DOM"],
  types: [],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noUnusedLocals: true,
  verbatimModuleSyntax: true,
  allowImportingTsExtensions: true,
  noEmit: true,
};

const store = fixture(() => storeWith("lab"));
const server = fixture(() => store.serve("lab"));
const dir = fixture(tempDir);
beforeAll(async () => {
  await Bun.write(dir.join("openapi.json"), await server.client.text("/openapi.json"));
  const types = await outputOf(`${root}test/helpers/client-types.ts`, dir.join("openapi.json"));
  await Bun.write(dir.join("api.ts"), types);
  await Bun.write(dir.join("client.ts"), client);
  await Bun.write(dir.join("tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  await symlink(`${root}node_modules`, dir.join("node_modules"));
});

/** Runs a script that must succeed. @returns its standard output */
async function outputOf(script: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run([process.execPath, "--bun", script, ...args], { cwd: root });
  if (code !== 0) throw new Error(`${script} ended with ${code}: ${stdout}${stderr}`);
  return stdout;
}

test("compiles under strict types", async () => {
  expect(await outputOf(`${root}node_modules/typescript/bin/tsc`, "-p", dir.path)).toBe("");
});

test("gets answers that match its types: a demo, a partial failure, a form and refusals", async () => {
  const { roundTrip }: { roundTrip: (url: string) => Promise<unknown> } = await import(dir.join("client.ts"));
  expect(await roundTrip(server.url.href)).toEqual({
    y: 4,
    finished: false,
    status: "success",
    message: expect.stringContaining("input 1"),
    partial: [4, null],
    faults: [1],
    demo: [4],
    logs: "",
    again: "success",
    formed: 5,
    problem: "urn:sconce:problem:inputs_invalid",
    pointers: ["/0/x"],
    other: false,
    unknown: 404,
  });
});
