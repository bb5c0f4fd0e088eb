/** The values that labels of metrics have: few, and known beforehand, so that every series is there from the start. */
import type { ErrorCode } from "./errors.ts";

/**
 * Why a prediction or an input failed: its time was up, its client gave it up, the input or one of its files is wrong, the model failed, the device had
 * too little memory, the engine process ended, the server stopped, the outputs are too large, or the store cannot be written.
 */
export const failureReasons = [
  "timeout",
  "canceled",
  "input",
  "file",
  "model",
  "memory",
  "engine",
  "stop",
  "size",
  "store",
] as const;
export type FailureReason = (typeof failureReasons)[number];

/** Of an input that failed with an error of this code; all others are the model's. */
const reasons: Partial<Record<ErrorCode, FailureReason>> = {
  canceled: "canceled",
  timed_out: "timeout",
  inputs_invalid: "input",
  file_refused: "file",
  file_unavailable: "file",
  file_too_large: "file",
  file_invalid: "file",
  out_of_memory: "memory",
  engine_ended: "engine",
  session_closed: "stop",
};

export function reasonOf(code: ErrorCode): FailureReason {
  return reasons[code] ?? "model";
}

/** Why a batch was sent to a runner when it was. */
export const batchCauses = [
  // As many items as go together.
  "full",
  // A runner was idle, and no item was to wait for others.
  "idle",
  // The oldest item had waited for others as long as it may.
  "delay",
  // The server stops: no other items will come.
  "drain",
  // Of clients whose inputs failed before, whose turn comes after others'.
  "late",
  // A part of a batch that failed.
  "part",
  // A few items of predictions that had just come, beside batches of predictions with many.
  "express",
  // An item that may have ended the engine process, by itself.
  "alone",
] as const;
export type BatchCause = (typeof batchCauses)[number];

/** What a request was refused for, by status. */
export const refusals = {
  json: 400,
  encoding: 400,
  incomplete: 400,
  header: 400,
  origin: 403,
  host: 403,
  path: 404,
  prediction: 404,
  file: 404,
  method: 405,
  slow: 408,
  size: 413,
  type: 415,
  range: 416,
  inputs: 422,
  webhook: 422,
  // The queue has too many inputs, too many bytes, or is too long for the request's time.
  queue: 429,
  bytes: 429,
  time: 429,
  memory: 429,
  internal: 500,
  drain: 503,
  engine: 503,
  store: 503,
  // The queue of the replicas is away.
  replicas: 503,
} as const;
export type Refusal = keyof typeof refusals;

/**
 * Why the queue of the replicas did not do what it was told: it did not answer in time, cannot be reached, takes no writes as a replica of its own, has no
 * memory or disk left, or something else.
 */
export const queueFaults = ["timeout", "away", "readonly", "full", "other"] as const;
export type QueueFault = (typeof queueFaults)[number];

/** What became of a message to a webhook: told, tried again later, or never told. */
export const webhookResults = ["told", "failed", "given_up"] as const;
export type WebhookResult = (typeof webhookResults)[number];

export const stages = ["decode", "fetch", "preprocess", "queue", "forward", "postprocess", "encode"] as const;
export type Stage = (typeof stages)[number];

/** All that the server answers with, counted apart; any other would be a fault, and is counted with 500. */
export const statuses = [
  200, 204, 206, 302, 304, 308, 400, 403, 404, 405, 408, 413, 415, 416, 422, 429, 500, 503,
] as const;
export type Status = (typeof statuses)[number];

/** The paths that are counted apart, with the statuses that each is expected to answer with. */
export const routes = {
  "/": [200, 302],
  "/predictions": [200, 400, 403, 408, 413, 415, 422, 429, 503],
  "/predictions/{id}": [200, 400, 403, 404, 408, 413, 415, 422, 429, 503],
  "/predictions/{id}/events": [200, 204, 404],
  "/predictions/{id}/outputs": [200, 206, 304, 404, 416],
  "/predictions/{id}/cancel": [200, 403, 404],
  "/demo": [200, 400, 403, 408, 413, 415, 422, 429, 503],
  "/demo/{id}": [200, 400, 403, 404, 408, 413, 415, 422, 429, 503],
  "/demo/{id}/events": [200, 204, 404],
  "/demo/{id}/outputs": [200, 206, 304, 404, 416],
  "/demo/{id}/cancel": [200, 403, 404],
  "/examples": [200],
  "/docs": [200],
  "/openapi.json": [200],
  "/metrics": [200],
  "/health/live": [200],
  "/health/ready": [200, 503],
  other: [404, 405],
} as const satisfies Record<string, readonly Status[]>;
export type Route = keyof typeof routes;

/** The route of a path. */
export function routeOf(path: string): Route {
  const known = byPath.get(path);
  if (known !== undefined) return known;
  const match = /^(\/predictions|\/demo)\/[^/]+(\/cancel$|\/events$|(?:\/(?:demo_)?(outputs))\/.*|$)/.exec(path);
  if (match !== null) return byPath.get(`${match[1]}/{id}${match[3] === undefined ? match[2] : "/outputs"}`) ?? "other";
  if (path.startsWith("/demo/assets/")) return "/demo";
  return path.startsWith("/docs/") ? "/docs" : "other";
}

const byPath: ReadonlyMap<string, Route> = new Map(routeNames().map((route) => [route, route]));

export function routeNames(): Route[] {
  return Object.keys(routes).filter((name): name is Route => name in routes);
}
