/**
 * Reads the standard variables of OpenTelemetry that its exporters do not read. A cluster sets them for all its
 * programs, so a value that is unknown here is ignored with a warning, as OpenTelemetry's specification requires.
 */
import { log } from "../../base/log.ts";

const protocols = ["http/protobuf", "http/json"] as const;
export type Protocol = (typeof protocols)[number];

const samplers = [
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
  "always_on",
  "always_off",
  "traceidratio",
] as const;
export type SamplerName = (typeof samplers)[number];

export interface TelemetrySettings {
  readonly protocol: Protocol;
  readonly sampler: SamplerName;
  readonly ratio: number;
  readonly batches: {
    readonly scheduledDelayMillis: number;
    readonly exportTimeoutMillis: number;
    readonly maxQueueSize: number;
    readonly maxExportBatchSize: number;
  };
}

type Variables = Readonly<Record<string, string | undefined>>;

/** Reads the variables. @returns undefined if no spans are exported */
export function telemetrySettings(env: Variables): TelemetrySettings | undefined {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return undefined;
  if (!isExported(env)) return undefined;
  const number = (name: string, fallback: number) => numberOf(env, name, fallback);
  return {
    protocol: protocolOf(env),
    sampler: oneOf(samplers, env, "OTEL_TRACES_SAMPLER") ?? "parentbased_always_on",
    ratio: number("OTEL_TRACES_SAMPLER_ARG", 1),
    batches: {
      scheduledDelayMillis: number("OTEL_BSP_SCHEDULE_DELAY", 5000),
      exportTimeoutMillis: number("OTEL_BSP_EXPORT_TIMEOUT", 30_000),
      maxQueueSize: number("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
      maxExportBatchSize: number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    },
  };
}

/** Whether spans are exported. An endpoint alone is enough, unless the list of exporters lacks `otlp`. */
function isExported(env: Variables): boolean {
  const name = "OTEL_TRACES_EXPORTER";
  const exporters = (env[name] ?? "").split(",").flatMap((each) => each.trim().toLowerCase() || []);
  const others = exporters.filter((each) => each !== "otlp" && each !== "none");
  if (others.length > 0) ignored(name, env[name], "spans go to otlp or to none");
  if (exporters.length > 0) return exporters.includes("otlp");
  const endpoints = [env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, env.OTEL_EXPORTER_OTLP_ENDPOINT];
  return endpoints.some((endpoint) => endpoint !== undefined && endpoint !== "");
}

function protocolOf(env: Variables): Protocol {
  const own = oneOf(protocols, env, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
  return own ?? oneOf(protocols, env, "OTEL_EXPORTER_OTLP_PROTOCOL") ?? "http/protobuf";
}

function oneOf<T extends string>(known: readonly T[], env: Variables, name: string): T | undefined {
  const value = env[name];
  if (value === undefined || value === "") return undefined;
  const found = known.find((each) => each === value.toLowerCase());
  if (found !== undefined) return found;
  ignored(name, value, `known values are ${known.join(", ")}`);
  return undefined;
}

function numberOf(env: Variables, name: string, fallback: number): number {
  const text = env[name];
  if (text === undefined || text === "") return fallback;
  const value = Number(text);
  if (value >= 0 && Number.isFinite(value)) return value;
  ignored(name, text, "it must be a number from 0 on");
  return fallback;
}

function ignored(name: string, value: string | undefined, why: string): void {
  log.warn(`Ignored: ${name} is ${JSON.stringify(value)}; ${why}`);
}
