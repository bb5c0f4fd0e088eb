/** The parts that all models of a front share: counters, the port, the memory account, API keys, downloads. */
import { decodings } from "../author/decoding-gate.ts";
import { ApiKeys } from "../http/access/api-keys.ts";
import { OtherFronts } from "../http/other-fronts.ts";
import { Lifecycle } from "../http/routes/health.ts";
import { Uploads } from "../http/uploads.ts";
import { EventLoopLag } from "../machine/processes/event-loop-lag.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { Fetcher } from "../pipeline/fetcher.ts";
import { HookCell } from "../pipeline/hooks.ts";
import { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { Spans } from "../pipeline/spans.ts";
import type { Unfinished } from "../predictions/admission.ts";
import { FrontPort } from "./front-port.ts";
import { counterNames, type FrontStart } from "./messages.ts";
import { slots } from "./metrics/counts.ts";
import { Metrics } from "./metrics/metrics.ts";
import { fetcherFor, maxMemoryOf } from "./serve-limits.ts";
import { telemetrySettings } from "./telemetry/settings.ts";

export interface FrontShared {
  readonly start: FrontStart;
  /** Whether models share the queue. A model may then fill at most as much of the queue as remains free. */
  readonly hasOthers: boolean;
  /** Finds the packages of builds. */
  readonly source: ModelSource;
  readonly lifecycle: Lifecycle;
  readonly port: FrontPort;
  readonly otherFronts: OtherFronts;
  /** Counters of requests that no model answers, and of the event loop. */
  readonly metrics: Metrics;
  /** The counters of a model. @param counts path of their file */
  readonly metricsOf: (counts: string) => Metrics;
  /** Process ids of the server by their names in metrics; engine processes are not included. */
  readonly processes: () => Readonly<Record<string, number>>;
  /** Accepted, unfinished work of this front, which the other fronts read. */
  readonly unfinished: Unfinished;
  /** Sums of the accepted, unfinished work of the other fronts. */
  readonly others: () => Readonly<Unfinished>;
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
  readonly keys: ApiKeys | undefined;
  /** Names the running call of a hook to the supervisor. */
  readonly hookCell: HookCell;
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
export async function openShared(
  start: FrontStart,
  source: ModelSource,
  opened: AsyncDisposableStack,
): Promise<FrontShared> {
  const { config, index, count, sockets } = start;
  const lifecycle = new Lifecycle();
  if (start.wasReady) lifecycle.phase = "restarting";
  const port = opened.use(new FrontPort(start));
  const { metrics, metricsOf } = openMetrics(start);
  const { processes, unfinished, others, sharedMemory } = openCounters(start);
  const memory = new MemoryAccount({ maxBytes: maxMemoryOf(config), shared: sharedMemory });
  const uploads = new Uploads();
  opened.defer(decodings.useBudget(memory.pictures));
  const { apiKeys } = start.config;
  const keys = apiKeys === undefined ? undefined : opened.use(new ApiKeys(apiKeys));
  const lag = new EventLoopLag({ onLag: (seconds) => metrics.loopHeld(seconds) });
  lag.start();
  opened.defer(() => lag.stop());
  return {
    start,
    hasOthers: start.snapshot.models.filter(({ stage }) => stage === "current").length > 1,
    source,
    lifecycle,
    port,
    otherFronts: new OtherFronts({ index, count, socketOf: (other) => sockets[other] ?? "" }),
    metrics,
    metricsOf,
    processes,
    unfinished,
    others,
    memory,
    uploads,
    keys,
    hookCell: new HookCell(start.hookCell),
    fetcher: opened.use(fetcherFor(config)),
    lag,
    tracing: await openTracing(opened),
  };
}

/** Starts OpenTelemetry if its variables ask for it. */
async function openTracing(opened: AsyncDisposableStack): Promise<Spans | undefined> {
  const settings = telemetrySettings(process.env);
  if (settings === undefined) return undefined;
  // Dynamic, so that only servers with telemetry load OpenTelemetry.
  const { openTelemetry } = await import("./telemetry/open-telemetry.ts");
  return opened.use(openTelemetry(settings)).tracing;
}

function openMetrics({ counts, index, count }: FrontStart) {
  const known = new Map<string, Metrics>();
  const metricsOf = (path: string) => {
    // The last row belongs to the supervisor.
    const counted = new SharedCounters({ path, names: slots, rows: count + 1 });
    const rows = indices(count + 1).map((row) => counted.row(row));
    const metrics = known.get(path) ?? new Metrics(rows, index);
    known.set(path, metrics);
    return metrics;
  };
  return { metrics: metricsOf(counts), metricsOf };
}

/** Counters of unfinished work and of memory: this front's values, with the sums of the other fronts. */
function openCounters({ counters, index: row, count }: FrontStart) {
  const shared = new SharedCounters({ path: counters, names: counterNames, rows: count });
  const pids = indices(count).map((front) => shared.counter("pid", front));
  pids[row]?.set(process.pid);
  const items = shared.counter("items", row);
  const bytes = shared.counter("bytes", row);
  const unfinished: Unfinished = {
    get items() {
      return items.own;
    },
    set items(value) {
      items.set(value);
    },
    get bytes() {
      return bytes.own;
    },
    set bytes(value) {
      bytes.set(value);
    },
  };
  const sharedMemory = {
    count,
    held: shared.counter("held", row),
    pictures: shared.counter("pictures", row),
    results: shared.counter("results", row),
  };
  const others = () => ({ items: items.sum() - items.own, bytes: bytes.sum() - bytes.own });
  // The process id is 0 while a front restarts.
  const processes = () => ({
    supervisor: process.ppid,
    ...Object.fromEntries(pids.flatMap(({ own }, i) => (own === 0 ? [] : [[`front-${i + 1}`, own]]))),
  });
  return { processes, unfinished, others, sharedMemory };
}

function indices(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}
