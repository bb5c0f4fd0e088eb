/**
 * Adds the routes of the Open Inference Protocol v2 (KServe, Triton), with Triton's extensions for binary tensors, model configuration and model
 * repository.
 */
import type { Context, Hono } from "hono";
import { HELD_PER_BYTE } from "../../../pipeline/inputs/body.ts";
import { ProblemError } from "../../problem.ts";
import { contextOf, modelOf, perModel } from "../../request.ts";
import { unreadyOf } from "../../routes/health.ts";
import { addRepositoryRoutes } from "../../routes/models.ts";
import type { ServedModel } from "../../served-model.ts";
import type { ApiOptions, Translator } from "../api.ts";
import { readMessage } from "../message.ts";
import { admit, runInputs } from "../waited-predictions.ts";
import { requestOf } from "./infer-request.ts";
import { responseBody } from "./infer-response.ts";
import { prepareInputs } from "./prediction-inputs.ts";
import { type TensorField, tensorsOf } from "./tensors.ts";

const LENGTH_HEADER = "Inference-Header-Content-Length";
/** Another name of the version that answers without one. Triton's perf_analyzer exits if a version is not a number. */
const NUMBERED_VERSION = "1";

export const v2: Translator = {
  addRoutes,
  hasPath: (path) => path === "/v2" || path.startsWith("/v2/"),
  /** The HTTP status that Triton answers. */
  statusOf: (status) => (status === 422 ? 400 : status === 429 ? 503 : status),
  bodyOf: ({ detail }) => ({ error: detail }),
};

function addRoutes(app: Hono, options: ApiOptions): void {
  const { version, lifecycle, config } = options;
  const protocolOf = perModel(protocolModel);
  const readiness = (c: Context, isReady = unreadyOf(c, lifecycle) === undefined) =>
    c.json({ ready: isReady }, isReady ? 200 : 503, isReady ? {} : { "Retry-After": "1" });

  const infer = async (c: Context): Promise<Response> => {
    const { model, inputs, outputs, byteFields } = protocolOf(c);
    const { name, maxInputs } = model;
    const headerLength = c.req.raw.headers.get(LENGTH_HEADER);
    admit(c, model, config.maxBodyBytes);
    const convert = (value: unknown, binary: Uint8Array) => {
      const request = requestOf(value, binary, { name, maxInputs: maxInputs.prediction, inputs, outputs });
      return { request, prepared: prepareInputs(request, inputs.isWhole) };
    };
    const read = await readMessage(c.req.raw, options, convert, headerLength);
    const { request, prepared } = read.value;
    using charge = read.charge;
    // A small body may expand to many rows, so their memory is counted before the rows are created.
    charge.mustGrow(HELD_PER_BYTE * Math.max(0, prepared.maxBytes - read.bytes));
    contextOf(c).byteFields = byteFields;
    const waited = { inputs: prepared, bytes: read.bytes, charge, timeoutMs: request.timeoutMs };
    const ended = await runInputs(c, model, waited);
    if (!ended.ok) return c.json({ error: ended.message }, 500);
    const head = { model_name: name, model_version: model.tag, id: request.id ?? ended.id };
    const { json, binary } = responseBody(head, ended.outputs, { wanted: request.outputs, isWhole: outputs.isWhole });
    if (binary.length === 0) return c.body(json, 200, { "Content-Type": "application/json" });
    const start = Buffer.from(json);
    const headers = { "Content-Type": "application/octet-stream", [LENGTH_HEADER]: String(start.length) };
    return c.body(Buffer.concat([start, ...binary]), 200, headers);
  };

  const add = (method: "get" | "post", path: string, answer: (c: Context) => Response | Promise<Response>) => {
    for (const model of ["/v2/models/:model", "/v2/models/:model/versions/:version"])
      app[method](`${model}${path}`, (c) => {
        checkVersion(c);
        return answer(c);
      });
  };
  add("get", "", (c) => c.json(protocolOf(c).metadata));
  // A model that was unloaded because it was idle stays ready: its next request loads it. A model that a client unloaded is not ready.
  add("get", "/ready", (c) => readiness(c, unreadyOf(c, lifecycle) === undefined && !modelOf(c).isUnloadedByClient()));
  add("get", "/config", (c) => c.json(protocolOf(c).config));
  add("post", "/infer", infer);
  app.get("/v2", (c) => c.json({ name: "sconce", version, extensions }));
  app.get("/v2/health/live", (c) => c.json({ live: true }));
  app.get("/v2/health/ready", (c) => readiness(c));
  addRepositoryRoutes(app, options);
}

/** Refuses a request for a model or a version that the server does not have. modelFinder() has found the model. */
function checkVersion(c: Context): void {
  const { model, version } = c.req.param();
  const { served } = contextOf(c);
  if (served !== undefined && [undefined, served.tag, served.digest, NUMBERED_VERSION].includes(version)) return;
  const unknown = `'${served?.name ?? model}'${version === undefined ? "" : ` version ${version}`}`;
  throw new ProblemError({ code: "not_found", detail: `Request for unknown model: ${unknown} is not found` });
}

const extensions = ["binary_tensor_data", "model_configuration", "model_repository"];

/** A model as the protocol shows it. */
function protocolModel(model: ServedModel) {
  const { name, tag } = model;
  const inputs = tensorsOf(model.inputSchema, "input");
  const outputs = tensorsOf(model.outputSchema, "output");
  const byteFields = outputs.fields.flatMap((field) =>
    field.values.kind === "numbers" && field.values.takesBytes ? field.name : [],
  );
  const metadata = {
    name,
    versions: [tag, NUMBERED_VERSION],
    platform: "sconce",
    inputs: inputs.fields.map(metadataOf),
    outputs: outputs.fields.map(metadataOf),
  };
  const config = {
    name,
    platform: "sconce",
    backend: "sconce",
    version_policy: { latest: { num_versions: 1 } },
    max_batch_size: model.batchSize,
    input: inputs.fields.map((field) => ({ ...configOf(field), optional: !field.isRequired })),
    output: outputs.fields.map(configOf),
    dynamic_batching: {},
  };
  return { model, inputs, outputs, byteFields, metadata, config };
}

function metadataOf({ name, datatype, shape }: TensorField) {
  return { name, datatype, shape };
}

/** A tensor in the model configuration, whose `dims` exclude the batch dimension. */
function configOf({ name, datatype, shape }: TensorField) {
  return { name, data_type: `TYPE_${datatype === "BYTES" ? "STRING" : datatype}`, dims: shape.slice(1) };
}
