/** Answers that a prediction can have, for the samples in the documentation. */
import type { Family } from "./families.ts";

/** One output and one demo output; undefined where no short one is known. */
export interface OutputSamples {
  readonly output: unknown;
  readonly demoOutput: unknown;
}

type Status = "pending" | "running" | "success" | "failed" | "canceled";

/** OpenAPI's named examples of these statuses, in this order; those that would have an unknown output are left out. */
export function recordSamples(
  family: Family,
  { output, demoOutput }: OutputSamples,
  statuses: readonly Status[],
): Record<string, { value: object }> {
  const isDemo = family.kind === "demo";
  const record = (status: string, members: object, times: object) => ({
    [family.idName]: "k3v9q7x1c5m2",
    status,
    ...members,
    ...(isDemo ? { logs: "" } : {}),
    created_at: "2026-01-01T12:00:00.000Z",
    ...times,
  });
  const started = { started_at: "2026-01-01T12:00:00.002Z" };
  const ended = { ...started, finished_at: "2026-01-01T12:00:00.010Z" };
  const fault = "the file is not an image";
  const failure = {
    error_message: `${isDemo ? "" : "1 of 2 inputs failed: "}input 1: ${fault}`,
    errors: [{ index: 1, message: fault }],
  };
  const values: Record<Status, object | undefined> = {
    pending: record("pending", {}, {}),
    running: record("running", {}, started),
    success:
      output === undefined || (isDemo && demoOutput === undefined)
        ? undefined
        : record("success", { outputs: [output], ...(isDemo ? { demo_outputs: [demoOutput] } : {}) }, ended),
    failed:
      output === undefined && !isDemo
        ? undefined
        : record("failed", { ...failure, ...(isDemo ? {} : { partial_outputs: [output, null] }) }, ended),
    canceled: record("failed", { error_message: "Canceled" }, ended),
  };
  const samples: Record<string, { value: object }> = {};
  for (const status of statuses) {
    const value = values[status];
    if (value !== undefined) samples[status] = { value };
  }
  return samples;
}
