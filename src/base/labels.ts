/** Label values of metrics. All values are fixed, so that every series exists when the server starts. */

/** Reasons why a prediction or an input failed. */
export const failureReasons = [
  "timeout",
  "canceled",
  "input",
  "file",
  "model",
  // Failure: the device or the server has too little memory.
  "memory",
  // Failure: the engine process, which runs batches, ended or could not load the model.
  "engine",
  // Failure: the server stopped, or a restarted server may not run the prediction of another version.
  "stop",
  // Failure: the outputs are too large.
  "size",
  // Failure: the store of predictions cannot be written.
  "store",
] as const;
export type FailureReason = (typeof failureReasons)[number];

/** Reasons why a batch started. */
export const batchCauses = [
  // The batch has the maximum size.
  "full",
  // An instance of the model was idle, and no item had to wait for a fuller batch.
  "idle",
  // The batching delay of the oldest item ended.
  "delay",
  // The batch is a part of a failed batch that runs again.
  "part",
  // A model with `step` ran one step of its current items.
  "step",
  // A single item that may have crashed the engine process ran alone.
  "alone",
] as const;
export type BatchCause = (typeof batchCauses)[number];

/** Reasons why the server refuses a request, each with the HTTP status. */
export const refusals = {
  json: 400,
  encoding: 400,
  incomplete: 400,
  header: 400,
  key: 401,
  permission: 403,
  origin: 403,
  host: 403,
  path: 404,
  prediction: 404,
  method: 405,
  slow: 408,
  // Refused: the server cannot reload its models now.
  reload: 409,
  size: 413,
  type: 415,
  inputs: 422,
  webhook: 422,
  // Refused: the queue has too many inputs (`queue`), too many bytes (`bytes`), or would take longer than the request
  // may wait (`time`).
  queue: 429,
  bytes: 429,
  time: 429,
  memory: 429,
  // Failed: a new build did not start.
  new_build: 500,
  internal: 500,
  drain: 503,
  engine: 503,
  store: 503,
  // Refused: Redis, whose queue the replicas share, is not reachable.
  replicas: 503,
} as const;
export type Refusal = keyof typeof refusals;

/**
 * Reasons why a Redis command failed. `away`: Redis is unreachable; `readonly`: it is a read-only replica; `full`: it
 * has no memory or disk space.
 */
export const queueFaults = ["timeout", "away", "readonly", "full", "other"] as const;
export type QueueFault = (typeof queueFaults)[number];

/** Results of sending a webhook message: `told` arrived, `failed` will be retried, `given_up` will not be retried. */
export const webhookResults = ["told", "failed", "given_up"] as const;
export type WebhookResult = (typeof webhookResults)[number];

/** States of a model on a server with several models. A prediction for an `unloaded` model loads it. */
export const modelStates = ["unloaded", "loading", "ready", "draining", "failed"] as const;
export type ModelState = (typeof modelStates)[number];

/** Reasons why a process of the server ended and starts again. */
export const restartCauses = [
  // The watchdog killed the process: it did not answer, or a batch exceeded its time limit.
  "stuck",
  // The kernel killed the process, probably because memory ran out.
  "memory",
  // Another signal ended the process, as in a crash.
  "signal",
  // The process exited on its own.
  "exit",
  // The set-up of the process failed.
  "setup",
] as const;
export type RestartCause = (typeof restartCauses)[number];

/** Reasons why a server is not ready. */
export const unreadyReasons = [
  // The model is being set up.
  "starting",
  // The front has ended and starts again.
  "restarting",
  // The engine process, which runs batches, has ended and starts again.
  "engine",
  // Redis, whose queue the replicas share, is not reachable.
  "queue",
  // The memory of Redis is full.
  "full",
  // The decoding of pictures is stuck.
  "pictures",
  // The database file of the store was deleted or replaced.
  "store",
  // The store cannot be written.
  "disk",
  // The server only finishes accepted work.
  "draining",
] as const;
export type Unready = (typeof unreadyReasons)[number];

export const stages = [
  "decode",
  "fetch",
  "preprocess_wait",
  "preprocess",
  "queue",
  "forward",
  "postprocess",
  "encode",
] as const;
export type Stage = (typeof stages)[number];

/** All HTTP statuses of the server. Any other status is a bug and counts as 500. */
export const statuses = [
  200, 202, 204, 302, 304, 308, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429, 500, 503,
] as const;
export type Status = (typeof statuses)[number];

/** Labels of routes in metrics, each with its possible HTTP statuses. */
export const routes = {
  "/": [200, 302],
  "/predictions": [200, 400, 403, 408, 413, 415, 422, 429, 503],
  "/predictions/{id}": [200, 204, 400, 403, 404, 408, 413, 415, 422, 429, 503],
  "/predictions/{id}/cancel": [200, 403, 404],
  "/demo": [200, 400, 403, 408, 413, 415, 422, 429, 503],
  "/demo/{id}": [200, 204, 400, 403, 404, 408, 413, 415, 422, 429, 503],
  "/demo/{id}/cancel": [200, 403, 404],
  "/examples": [200],
  "/docs": [200, 304],
  "/openapi.json": [200],
  "/mcp": [200, 202, 400, 403, 404, 405, 406, 408, 413, 415, 429, 503],
  "/metrics": [200],
  "/reload": [200, 202, 403, 409, 500],
  "/v1/embeddings": [200, 400, 403, 404, 408, 413, 415, 429, 500, 503],
  "/v1/models": [200, 404],
  "/v1/rerank": [200, 400, 403, 404, 408, 413, 415, 429, 500, 503],
  "/v2/rerank": [200, 400, 403, 404, 408, 413, 415, 429, 500, 503],
  "/classify": [200, 400, 403, 404, 408, 413, 415, 429, 500, 503],
  "/health/live": [200],
  "/health/ready": [200, 503],
  "/v2": [200],
  "/v2/health/live": [200],
  "/v2/health/ready": [200, 503],
  "/v2/models/{model}": [200, 404],
  "/v2/models/{model}/ready": [200, 404, 503],
  "/v2/models/{model}/config": [200, 404],
  "/v2/models/{model}/infer": [200, 400, 403, 404, 408, 413, 415, 429, 500, 503],
  "/v2/repository/index": [200, 403],
  "/v2/repository/models/{model}": [200, 400, 403, 404, 503],
  "/models": [200],
  other: [404, 405],
} as const satisfies Record<string, readonly Status[]>;
export type Route = keyof typeof routes;

export function routeOf(path: string): Route {
  const known = byPath.get(path);
  if (known !== undefined) return known;
  const match = /^(\/predictions|\/demo)\/[^/]+(\/cancel$|$)/.exec(path);
  if (match !== null) return byPath.get(`${match[1]}/{id}${match[2]}`) ?? "other";
  if (path.startsWith("/v2/models/{model}/versions/"))
    return byPath.get(path.replace(/\/versions\/[^/]+/, "")) ?? "other";
  if (path.startsWith("/v2/repository/models/")) return "/v2/repository/models/{model}";
  if (path.startsWith("/demo/assets/")) return "/demo";
  if (path.startsWith("/v1/models/")) return "/v1/models";
  return path.startsWith("/docs/") ? "/docs" : "other";
}

const byPath: ReadonlyMap<string, Route> = new Map(routeNames().map((route) => [route, route]));

export function routeNames(): Route[] {
  return Object.keys(routes).filter((name): name is Route => name in routes);
}
