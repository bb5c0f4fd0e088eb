/** The parts that a front has once, for all its models: the port, the memory account, API keys, downloads. */
import { decodings } from "../author/decoding-gate.ts";
import { EventLoopLag } from "../machine/processes/event-loop-lag.ts";
import type { KeyCounts } from "./access/api-key.ts";
import { ApiKeys, keyNumbers } from "./access/api-keys.ts";
import type { ServeConfig } from "./config.ts";
import type { Fetcher } from "./flow/fetcher.ts";
import type { RunningHooks } from "./flow/running-hooks.ts";
import type { FrontModelOptions } from "./front-model-parts.ts";
import { FrontPort } from "./front-port.ts";
import type { ListenOptions } from "./http/listener.ts";
import { Lifecycle } from "./http/routes/health.ts";
import { Siblings, type SiblingsOptions } from "./http/siblings.ts";
import { MemoryAccount, type MemoryAccountOptions } from "./memory/memory-account.ts";
import type { RelativesNews } from "./messages.ts";
import type { Family } from "./metrics/counts.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { Unfinished } from "./predictions/admission.ts";
import { fetcherFor, maxMemoryOf } from "./serve-limits.ts";
import type { ServerControl } from "./server-control.ts";
import { telemetrySettings } from "./telemetry/settings.ts";
import type { Tracing } from "./telemetry/tracing.ts";

export interface FrontOptions {
  /** The first model answers at the root. */
  readonly models: readonly [FrontModelOptions, ...FrontModelOptions[]];
  readonly config: ServeConfig;
  readonly listening?: Partial<ListenOptions> & { readonly adminPort?: number | undefined };
  readonly control: ServerControl;
  /** Prefix of the ids of this front's predictions. */
  readonly owner: string;
  /** Whether this front resumes the predictions of an owner after a restart; by default it resumes all. */
  readonly isOwn?: (owner: string) => boolean;
  /** Counters of requests and of the event loop, which the fronts of a server share. */
  readonly metrics?: Metrics;
  /** Process ids of the server, without the engines', by their names in metrics. */
  readonly processes: () => Readonly<Record<string, number>>;
  /** Whether this front reports the size of the store. Only one of the fronts that share a database reports it. */
  readonly countsStore?: boolean;
  /** Opens the port only when the front is ready: other fronts answer meanwhile. */
  readonly listensLate?: boolean;
  /** Called when the front is ready to open the port; resolves when it may. Needs `listensLate`. */
  readonly mayListen?: () => Promise<void>;
  /** The other fronts of this server. */
  readonly siblings?: SiblingsOptions;
  /** The build whose predictions alone this front takes over. */
  readonly onlyBuild?: string | undefined;
  /** Other servers with predictions of the same clients, when this front starts. */
  readonly relatives?: RelativesNews;
  /** Called when this front has finished its accepted work. Resolves when the other fronts have, too. This front keeps listening until then. */
  readonly othersDone?: () => Promise<void>;
  /** Accepted, unfinished work of this front, in memory that the other fronts read, and the sums of the other fronts. */
  readonly unfinished?: Unfinished;
  readonly others?: () => Readonly<Unfinished>;
  /** Numbers of the API keys in memory that the fronts share; by default this process has them alone. */
  readonly keyCounts?: KeyCounts;
  /** Memory that the fronts hold for clients. */
  readonly memory?: MemoryAccountOptions["siblings"];
  /** Called when the port is open, before any other work. */
  readonly onListening?: () => void;
  /** Called when the models are set up, before predictions of an earlier process run. */
  readonly onSetUp?: () => void;
  /** Records running hooks in a file, so that a supervisor can restart a front that a hook blocks. */
  readonly runningHooks?: RunningHooks;
}

export interface FrontShared {
  readonly options: FrontOptions;
  readonly lifecycle: Lifecycle;
  readonly port: FrontPort;
  readonly siblings: Siblings | undefined;
  /** Counters of requests that no model answers, and of the event loop; with one model, its counters too. */
  readonly metrics: Metrics;
  /** The metrics of all models, once they are open. */
  readonly all: { metrics: Pick<Metrics, "families"> };
  readonly memory: MemoryAccount;
  /** Undefined without --api-keys. */
  readonly keys: ApiKeys | undefined;
  readonly fetcher: Fetcher;
  readonly lag: EventLoopLag;
  /** Undefined without the variables of OpenTelemetry. */
  readonly tracing: Tracing | undefined;
}

/**
 * Opens the port first.
 * @param opened closes the parts when it is disposed
 * @throws SconceError `address_in_use`, or `usage` for a file without valid keys or a variable of OpenTelemetry
 */
export async function openShared(options: FrontOptions, opened: AsyncDisposableStack): Promise<FrontShared> {
  const { config, metrics = new Metrics() } = options;
  const lifecycle = new Lifecycle();
  const port = opened.use(new FrontPort(options, lifecycle));
  if (options.listensLate !== true) port.open();
  options.onListening?.();
  const memory = new MemoryAccount({
    maxBytes: maxMemoryOf(config),
    ...(options.memory && { siblings: options.memory }),
  });
  opened.defer(decodings.useBudget(memory.pictures));
  const keys = keysOf(options);
  if (keys !== undefined) opened.use(keys);
  const siblings = options.siblings && new Siblings(options.siblings, port.hold);
  const fetcher = opened.use(fetcherFor(config));
  const lag = watchLag(metrics, opened);
  const all: FrontShared["all"] = { metrics };
  const scraped = async () => all.metrics.families((await siblings?.metrics()) ?? []);
  // An earlier build that finishes its predictions is no part of the server's metrics.
  const exportsMetrics = options.countsStore !== false && options.onlyBuild === undefined;
  const tracing = await openTracing(exportsMetrics ? scraped : undefined, opened);
  return { options, lifecycle, port, siblings, metrics, all, memory, keys, fetcher, lag, tracing };
}

/** @param read the metrics of the whole server, in the process that exports them */
async function openTracing(
  read: (() => Promise<readonly Family[]>) | undefined,
  opened: AsyncDisposableStack,
): Promise<Tracing | undefined> {
  const settings = telemetrySettings(process.env);
  if (settings === undefined) return undefined;
  // Dynamic, so that only servers with telemetry load OpenTelemetry.
  const { openTelemetry } = await import("./telemetry/open-telemetry.ts");
  return opened.use(openTelemetry(settings, read)).tracing;
}

function keysOf({ config: { apiKeys }, keyCounts }: FrontOptions): ApiKeys | undefined {
  if (apiKeys === undefined) return undefined;
  return new ApiKeys(apiKeys, keyCounts ?? { rows: [new Float64Array(keyNumbers.length)], own: 0 });
}

/** Measures how long the event loop is blocked. */
function watchLag(metrics: Metrics, opened: AsyncDisposableStack): EventLoopLag {
  const lag = new EventLoopLag({ onLag: (seconds) => metrics.loopHeld(seconds) });
  lag.start();
  opened.defer(() => lag.stop());
  return lag;
}
