/**
 * Exports spans and metrics with OTLP. The exporters themselves read the variables for endpoint, headers, compression,
 * certificates and timeout.
 */
import { hostname } from "node:os";
import { DiagLogLevel, diag } from "@opentelemetry/api";
import { OTLPMetricExporter as JsonMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { version } from "../../../package.json";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { Family } from "../metrics/counts.ts";
import { ServerMetrics } from "./otlp-metrics.ts";
import type { SamplerName, TelemetrySettings } from "./settings.ts";
import { Spans } from "./spans.ts";

/** Time limit in milliseconds for the last export: a stop does not wait for an unreachable collector. */
const STOP_MS = 2000;

export interface Telemetry extends AsyncDisposable {
  /** Undefined if the settings export no spans. */
  readonly tracing: Spans | undefined;
}

/**
 * Starts the exports. @param read returns the metrics of the whole server; undefined in processes that export spans
 * only
 */
export function openTelemetry(
  { traces, metrics, batches }: TelemetrySettings,
  read: (() => Promise<readonly Family[]>) | undefined,
): Telemetry {
  const write = (message: string) =>
    logLimit.write("telemetry", (...more) => log.warn(`OpenTelemetry: ${message}`, ...more));
  const quiet = () => {};
  diag.setLogger({ error: write, warn: write, info: quiet, debug: quiet, verbose: quiet }, DiagLogLevel.WARN);
  const resource = defaultResource()
    .merge(resourceFromAttributes({ "service.name": "sconce", "service.version": version, "host.name": hostname() }))
    .merge(detectResources({ detectors: [envDetector] }));
  const stops: (() => Promise<void>)[] = [];
  let tracing: Spans | undefined;
  if (traces !== undefined) {
    const exporter = traces.protocol === "http/json" ? new JsonTraceExporter() : new OTLPTraceExporter();
    const provider = new TracerProvider({
      resource,
      sampler: samplerOf(traces.sampler, traces.ratio),
      spanProcessors: [new BatchSpanProcessor({ exporter, ...batches })],
    });
    stops.push(() => provider.shutdown());
    tracing = new Spans(provider.getTracer("sconce", version));
  }
  if (metrics !== undefined && read !== undefined) {
    const exporter = metrics.protocol === "http/json" ? new JsonMetricExporter() : new OTLPMetricExporter();
    const reader = new PeriodicExportingMetricReader({
      exporter,
      exportIntervalMillis: metrics.intervalMs,
      exportTimeoutMillis: Math.min(metrics.timeoutMs, metrics.intervalMs),
      metricProducers: [new ServerMetrics(resource, read)],
    });
    const provider = new MeterProvider({ resource, readers: [reader] });
    stops.push(() => provider.shutdown());
  }
  return {
    tracing,
    async [Symbol.asyncDispose]() {
      await Promise.race([Promise.allSettled(stops.map((stop) => stop())), Bun.sleep(STOP_MS)]);
    },
  };
}

function samplerOf(name: SamplerName, ratio: number): Sampler {
  const [prefix, kind] = name.startsWith("parentbased_") ? [true, name.slice("parentbased_".length)] : [false, name];
  const root =
    kind === "traceidratio"
      ? new TraceIdRatioBasedSampler(ratio)
      : kind === "always_off"
        ? new AlwaysOffSampler()
        : new AlwaysOnSampler();
  return prefix ? new ParentBasedSampler({ root }) : root;
}
