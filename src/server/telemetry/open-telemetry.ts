/**
 * Exports spans with OTLP. The exporters themselves read the variables for endpoint, headers, compression,
 * certificates and timeout.
 */
import { hostname } from "node:os";
import { DiagLogLevel, diag } from "@opentelemetry/api";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
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
import { Spans } from "../../pipeline/spans.ts";
import type { SamplerName, TelemetrySettings } from "./settings.ts";

/** Time limit in milliseconds for the last export: a stop does not wait for an unreachable collector. */
const STOP_MS = 2000;

export interface Telemetry extends AsyncDisposable {
  readonly tracing: Spans;
}

export function openTelemetry({ protocol, sampler, ratio, batches }: TelemetrySettings): Telemetry {
  const write = (message: string) =>
    logLimit.write("telemetry", (...more) => log.warn(`OpenTelemetry: ${message}`, ...more));
  const quiet = () => {};
  diag.setLogger({ error: write, warn: write, info: quiet, debug: quiet, verbose: quiet }, DiagLogLevel.WARN);
  const resource = defaultResource()
    .merge(resourceFromAttributes({ "service.name": "sconce", "service.version": version, "host.name": hostname() }))
    .merge(detectResources({ detectors: [envDetector] }));
  const exporter = protocol === "http/json" ? new JsonTraceExporter() : new OTLPTraceExporter();
  const provider = new TracerProvider({
    resource,
    sampler: samplerOf(sampler, ratio),
    spanProcessors: [new BatchSpanProcessor({ exporter, ...batches })],
  });
  return {
    tracing: new Spans(provider.getTracer("sconce", version)),
    async [Symbol.asyncDispose]() {
      await Promise.race([provider.shutdown().catch(() => {}), Bun.sleep(STOP_MS)]);
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
