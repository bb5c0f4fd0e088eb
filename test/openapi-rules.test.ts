/** OpenAPI documents follow Redocly's recommended rules, and rules of Spectral, which this file has as tests. */
import { expect, test } from "bun:test";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import Ajv from "ajv/dist/2020";
import digits from "../examples/digits/model.ts";
import minilm from "../examples/minilm/model.ts";
import upscale from "../examples/upscale/model.ts";
import type { Model } from "../src/author/define.ts";
import { wireSchema } from "../src/author/wire-schema.ts";
import { documentOf as makeDocument } from "../src/http/openapi/document.ts";
import { defineModel, float32, z } from "../src/index.ts";
import { plainDocument, tableOfRoutes } from "./helpers/routes.ts";

const node = z.object({
  value: z.number(),
  get children() {
    return z.array(node);
  },
});
const trees = defineModel({
  name: "trees",
  input: z.union([node, z.object({ tree: node, kind: z.enum(["a", "b"]).default("a") })]),
  output: node,
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "trees.pt",
  batchSize: 1,
  preprocess() {
    throw new Error("it is never run");
  },
  postprocess() {
    throw new Error("it is never run");
  },
});

const inParts = defineModel({
  name: "parts",
  input: z.string(),
  output: z.string(),
  part: node,
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "parts.pt",
  preprocess() {
    throw new Error("it is never run");
  },
  postprocess() {
    throw new Error("it is never run");
  },
});

const models: readonly Model[] = [digits, upscale, minilm, trees, inParts];
/** A name for each document, and a function that makes the document. */
const documents = models.map((model) => [model.name, () => documentFor(model)] as const);

function documentFor({ name, description, input, output, part, demo }: Model, options = {}) {
  const model = {
    name,
    tag: "0123456789ab",
    description,
    inputSchema: wireSchema(input, "input"),
    outputSchema: wireSchema(output, "output"),
    partSchema: part && wireSchema(part, "part"),
    demoOutputSchema: wireSchema(demo?.output ?? output, "demo.output"),
    shortExample: undefined,
    maxInputs: { prediction: 100, demo: 10 },
  };
  return makeDocument(tableOfRoutes(), model, { ...plainDocument, ...options });
}

type Document = ReturnType<typeof documentFor>;

function operationsOf({ paths = {} }: Document) {
  return Object.values(paths).flatMap(({ get, post, put }) =>
    [get, post, put].filter((operation) => operation !== undefined),
  );
}

test.each(documents)("Redocly's recommended rules find no fault in the document of %s", async (_, make) => {
  const document = make();
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source: JSON.stringify(document), config });
  expect(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)).toEqual([]);
});

test.each(documents)(
  "the document of %s names a contact and a server, and has the model's schemas unchanged",
  (_, make) => {
    const document = make();
    expect(document).toMatchObject({
      info: { version: "1.2.3+0123456789ab", contact: { name: expect.any(String) }, license: expect.any(Object) },
      servers: [{ url: "/" }],
      security: [],
    });
    expect(JSON.stringify(document.paths)).not.toContain('"allOf"');
  },
);

test.each(documents)("each operation of %s has a description, a tag, and 4xx and 5xx answers", (_, make) => {
  const document = make();
  const tags = (document.tags ?? []).filter(({ description }) => description).map(({ name }) => name);
  for (const { operationId, description, tags: own = [], parameters = [], responses = {} } of operationsOf(document)) {
    expect(description).toEndWith(".");
    expect([own.length, tags]).toEqual([1, expect.arrayContaining(own)]);
    expect({ operationId, statuses: Object.keys(responses) }).toMatchObject({
      statuses: expect.arrayContaining(["200", "400", "500", ...(operationId === "getLiveness" ? [] : ["503"])]),
    });
    if (!operationId?.startsWith("create")) continue;
    const schema = expect.objectContaining({ type: "number", minimum: 0.001, maximum: 999_999_999.999 });
    expect(parameters).toContainEqual(expect.objectContaining({ name: "Cancel-After", schema }));
  }
});

test("only a server with a secret for webhooks declares their header, and none declares Content-Encoding, which clients do not set by hand", () => {
  const headersOf = (document: Document) =>
    operationsOf(document).flatMap(({ parameters = [] }) =>
      parameters.flatMap((parameter) => ("name" in parameter ? [parameter.name] : [])),
    );
  expect(headersOf(documentFor(digits, { hasWebhooks: true }))).toContain("Webhook-URL");
  for (const name of ["Webhook-URL", "Content-Encoding"]) expect(headersOf(documentFor(digits))).not.toContain(name);
});

test("the document has the maximum inputs of predictions and of demos", () => {
  const bodyOf = (maxItems: number) => ({
    post: { requestBody: { content: { "application/json": { schema: { minItems: 1, maxItems } } } } },
  });
  expect(documentFor(digits).paths).toMatchObject({ "/predictions": bodyOf(100), "/demo": bodyOf(10) });
});

test("a prediction in the document has the members of its status", () => {
  const ajv = new Ajv({ strict: false, validateFormats: false });
  ajv.addSchema(documentFor(minilm), "openapi");
  const fits = ajv.compile({ $ref: "openapi#/components/schemas/Prediction" });
  const times = { created_at: "2026-01-01T12:00:00Z", finished_at: "2026-01-01T12:00:00Z" };
  const verdicts = [
    { status: "pending" },
    { status: "running" },
    { status: "success" },
    { status: "success", outputs: [] },
    { status: "failed" },
    { status: "failed", error_message: "Canceled" },
  ].map((members) => {
    const prediction = { prediction_id: "a", ...times, ...members };
    return fits(prediction);
  });
  expect(verdicts).toEqual([true, false, false, true, false, true]);
});
