/** The metrics that the routes count and show. */
import type { Refusal, Route } from "../base/labels.ts";
import type { Family } from "../base/metric-family.ts";

/** Counts the answers of a model or of the server. */
export interface RequestMetrics {
  answered(route: Route, status: number, ms: number): void;
  rejected(cause: Refusal): void;
}

/** The metrics as Prometheus text. */
export interface MetricsText {
  /** @param others gauges of the other fronts */
  text(others?: readonly Family[]): string;
}
