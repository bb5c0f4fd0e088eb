/**
 * Adds the routes of the Open Inference Protocol v2 (KServe, Triton), with Triton's extensions for binary tensors, model configuration, model
 * repository and statistics.
 */
import type { Context, Hono } from "hono";
import { HELD_PER_BYTE } from "../../../pipeline/inputs/body.ts";
import { inTurn } from "../../../pipeline/inputs/loop-turns.ts";
import { ProblemError } from "../../problem.ts";
import { contextOf, modelOf, perModel } from "../../request.ts";
import { unreadyOf } from "../../routes/health.ts";
import { addRepositoryRoutes } from "../../routes/models.ts";
import type { ServedModel } from "../../served-model.ts";
import type { ApiOptions, ErrorForm } from "../api.ts";
import { readInputs, runInputs } from "../waited-predictions.ts";
import { readRequest } from "./infer-request.ts";
import { responseBody } from "./infer-response.ts";
import { prepareInputs } from "./prediction-inputs.ts";
import { NUMBERED_VERSION, statisticsOf } from "./statistics.ts";
import { datatypeOf, rowShape, type TensorField, tensorsOf } from "./tensors.ts";

const LENGTH_HEADER = "Inference-Header-Content-Length";

export function addV2(app: Hono, options: ApiOptions): void {
  const { version, lifecycle } = options;
  const protocolOf = perModel(protocolModel);
  const readiness = (c: Context, isReady = unreadyOf(c, lifecycle) === undefined) =>
    c.json({ ready: isReady }, isReady ? 200 : 503, isReady ? {} : { "Retry-After": "1" });

  const infer = async (c: Context): Promise<Response> => {
    const { raw } = c.req;
    const { model, inputs, outputs, byteFields } = protocolOf(c);
    const { name, maxInputs } = model;
    const headerLength = raw.headers.get(LENGTH_HEADER);
    const {
      body,
      bytes: bodyBytes,
      charge,
    } = await readInputs(c, model, {
      ...options,
      isMessage: headerLength === null,
    });
    using releasing = new DisposableStack();
    releasing.use(charge);
    const wanted = { name, maxInputs, inputs, outputs };
    const { request, prepared } = await readRequest({ bytes: body, headerLength, charge }, wanted, (request) => ({
      request,
      prepared: prepareInputs(request, inputs),
    }));
    // A small body may expand to many rows, so their memory is counted before the rows are created.
    const heldBytes = Math.max(bodyBytes, prepared.maxLength);
    charge.mustGrow(HELD_PER_BYTE * (heldBytes - bodyBytes));
    const given = prepared.isCostly ? await inTurn(() => JSON.stringify(prepared.values())) : prepared;
    const bytes = typeof given === "string" ? Math.max(bodyBytes, given.length) : bodyBytes;
    if (typeof given === "string") charge.grow(HELD_PER_BYTE * (bytes - heldBytes));
    releasing.move();
    const asked = { inputs: given, bytes, charge, timeoutMs: request.timeoutMs };
    const { requestId, traceId, spanId, isSampled, tracestate } = contextOf(c);
    const origin = { requestId, traceId, spanId, isSampled, tracestate, byteFields };
    const ended = await runInputs(c, model, asked, origin);
    if (!ended.ok) return c.json({ error: ended.message }, 500);
    const id = request.id ?? ended.id;
    const { isWhole } = outputs;
    const { json, binary } = responseBody({ id, model, outputs: ended.outputs, wanted: request.outputs, isWhole });
    const head = Buffer.from(json);
    const isBinary = binary.length > 0;
    const all = isBinary ? Buffer.concat([head, ...binary]) : head;
    return c.body(all, 200, {
      "Content-Type": isBinary ? "application/octet-stream" : "application/json",
      ...(isBinary ? { [LENGTH_HEADER]: String(head.length) } : {}),
    });
  };

  const modelRoutes: Readonly<Record<string, Route>> = {
    "": ["GET", (c) => c.json(protocolOf(c).metadata)],
    // A model that was unloaded because it was idle stays ready: its next request loads it. A model that a client unloaded is not ready.
    ready: ["GET", (c) => readiness(c, unreadyOf(c, lifecycle) === undefined && !modelOf(c).isUnloadedByClient())],
    config: ["GET", (c) => c.json(protocolOf(c).config)],
    stats: [
      "GET",
      (c, version) => c.json({ model_stats: [statisticsOf(modelOf(c).metrics, modelOf(c).name, version)] }),
    ],
    infer: ["POST", infer],
  };

  app.get("/v2", (c) => c.json({ name: "sconce", version, extensions }));
  app.get("/v2/health/live", (c) => c.json({ live: true }));
  app.get("/v2/health/ready", (c) => readiness(c));
  addRepositoryRoutes(app, options);
  app.all("/v2/models/*", (c, next) => {
    const { path } = contextOf(c);
    const match = /^\/v2\/models\/(.+?)(?:\/versions\/([^/]+))?(?:\/(ready|config|stats|infer))?$/.exec(path);
    const [, given = "", version, what = ""] = match ?? [];
    const { name, tag, digest } = modelOf(c);
    if (given !== name || ![undefined, tag, digest, NUMBERED_VERSION].includes(version)) {
      const asked = version === undefined ? `'${given}'` : `'${given}' version ${version}`;
      throw notFound(`Request for unknown model: ${asked} is not found; this server has '${name}' version ${tag}`);
    }
    const [method, answer] = modelRoutes[what] ?? [];
    if (answer === undefined) return next();
    if (c.req.method === method) return answer(c, version);
    throw new ProblemError({
      code: "method_not_allowed",
      detail: `Method Not Allowed: ${path} takes ${method}`,
      headers: { Allow: method === "GET" ? "HEAD, GET" : "POST" },
    });
  });
}

export const v2Errors: ErrorForm = {
  hasPath: (path) => path === "/v2" || path.startsWith("/v2/"),
  /** The HTTP status that Triton answers. Only an API key at its limit gets 429, since Triton has no keys. */
  statusOf(status, { code }) {
    if (status === 422) return 400;
    return status === 429 && code !== "key_limit" ? 503 : status;
  },
  bodyOf: ({ detail }) => ({ error: detail }),
};

/** A model as the protocol shows it. */
function protocolModel(model: ServedModel) {
  const { name, tag } = model;
  const inputs = tensorsOf(model.inputSchema, "input");
  const outputs = tensorsOf(model.outputSchema, "output");
  const byteFields = outputs.fields
    .filter(({ values }) => values.kind === "numbers" && values.takesBytes)
    .map((field) => field.name);
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

const extensions = ["binary_tensor_data", "model_configuration", "model_repository", "statistics"];

/** `version` is the version in the path; undefined if the path has none. */
type Answer = (c: Context, version: string | undefined) => Response | Promise<Response>;
type Route = readonly [method: "GET" | "POST", answer: Answer];

function notFound(detail: string): ProblemError {
  return new ProblemError({ code: "not_found", detail });
}

function metadataOf(field: TensorField) {
  return { name: field.name, datatype: datatypeOf(field), shape: [-1, ...rowShape(field)] };
}

/** A tensor in the model configuration, whose `dims` exclude the batch dimension. */
function configOf(field: TensorField) {
  const datatype = datatypeOf(field);
  return {
    name: field.name,
    data_type: datatype === "BYTES" ? "TYPE_STRING" : `TYPE_${datatype}`,
    dims: rowShape(field),
  };
}
