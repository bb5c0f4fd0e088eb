/** The parts that all models of an HTTP process share: the port, the memory account, API keys, downloads. */
import { decodings } from "../author/decoding-gate.ts";
import { ApiKeys, keyNumbers } from "../http/access/api-keys.ts";
import { Lifecycle } from "../http/routes/health.ts";
import { Siblings } from "../http/siblings.ts";
import { Uploads } from "../http/uploads.ts";
import { EventLoopLag } from "../machine/processes/event-loop-lag.ts";
import type { Fetcher } from "../pipeline/fetcher.ts";
import { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { Spans } from "../pipeline/spans.ts";
import type { FrontOptions } from "./front-options.ts";
import { FrontPort } from "./front-port.ts";
import { Metrics } from "./metrics/metrics.ts";
import { fetcherFor, maxMemoryOf } from "./serve-limits.ts";
import { telemetrySettings } from "./telemetry/settings.ts";

export interface FrontShared {
  readonly options: FrontOptions;
  readonly lifecycle: Lifecycle;
  readonly port: FrontPort;
  readonly siblings: Siblings | undefined;
  /** Counters of requests that no model answers, and of the event loop. With one model they are also the model's. */
  readonly metrics: Metrics;
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
  readonly keys: ApiKeys | undefined;
  readonly fetcher: Fetcher;
  readonly lag: EventLoopLag;
  /** Undefined if no variable of OpenTelemetry asks for spans. */
  readonly tracing: Spans | undefined;
}

/**
 * Opens the shared parts, except the port.
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError `usage` for a faulty file of API keys or a wrong variable of OpenTelemetry
 */
export async function openShared(options: FrontOptions, opened: AsyncDisposableStack): Promise<FrontShared> {
  const { config, metrics = new Metrics() } = options;
  const lifecycle = new Lifecycle();
  if (options.wasReady) lifecycle.phase = "restarting";
  const port = opened.use(new FrontPort(options));
  const memory = new MemoryAccount({
    maxBytes: maxMemoryOf(config),
    ...(options.memory && { siblings: options.memory }),
  });
  const uploads = opened.use(new Uploads(memory));
  opened.defer(decodings.useBudget(memory.pictures));
  const keys = keysOf(options);
  if (keys !== undefined) opened.use(keys);
  const siblings = options.siblings && new Siblings(options.siblings, port.hold);
  const fetcher = opened.use(fetcherFor(config));
  const lag = watchLag(metrics, opened);
  const tracing = await openTracing(opened);
  return { options, lifecycle, port, siblings, metrics, memory, uploads, keys, fetcher, lag, tracing };
}

/** Starts OpenTelemetry if its variables ask for it. */
async function openTracing(opened: AsyncDisposableStack): Promise<Spans | undefined> {
  const settings = telemetrySettings(process.env);
  if (settings === undefined) return undefined;
  // Dynamic, so that only servers with telemetry load OpenTelemetry.
  const { openTelemetry } = await import("./telemetry/open-telemetry.ts");
  return opened.use(openTelemetry(settings)).tracing;
}

function keysOf({ config: { apiKeys }, keyCounts }: FrontOptions): ApiKeys | undefined {
  if (apiKeys === undefined) return undefined;
  return new ApiKeys(apiKeys, keyCounts ?? { rows: [new Float64Array(keyNumbers.length)], own: 0 });
}

function watchLag(metrics: Metrics, opened: AsyncDisposableStack): EventLoopLag {
  const lag = new EventLoopLag({ onLag: (seconds) => metrics.loopHeld(seconds) });
  lag.start();
  opened.defer(() => lag.stop());
  return lag;
}
