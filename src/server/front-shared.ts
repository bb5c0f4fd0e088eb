/** The parts that all models of an HTTP process share: the port, the memory account, API keys, downloads. */
import { decodings } from "../author/decoding-gate.ts";
import { EventLoopLag } from "../machine/processes/event-loop-lag.ts";
import type { KeyCounts } from "./access/api-key.ts";
import { ApiKeys, keyNumbers } from "./access/api-keys.ts";
import type { ServeConfig } from "./config.ts";
import type { Fetcher } from "./flow/fetcher.ts";
import type { HookCall, HookCell } from "./flow/hook-cell.ts";
import type { FrontModelOptions } from "./front-model-parts.ts";
import { FrontPort } from "./front-port.ts";
import type { ListenOptions } from "./http/listener.ts";
import { Lifecycle } from "./http/routes/health.ts";
import { Siblings, type SiblingsOptions } from "./http/siblings.ts";
import { Uploads } from "./http/uploads.ts";
import { MemoryAccount, type MemoryAccountOptions } from "./memory/memory-account.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { Unfinished } from "./predictions/admission.ts";
import { fetcherFor, maxMemoryOf } from "./serve-limits.ts";
import type { ServerControl } from "./server-control.ts";
import { telemetrySettings } from "./telemetry/settings.ts";
import type { Spans } from "./telemetry/spans.ts";

export interface FrontOptions {
  /** The first model answers paths without a model name. */
  readonly models: readonly [FrontModelOptions, ...FrontModelOptions[]];
  readonly config: ServeConfig;
  readonly listening?: Partial<ListenOptions> & { readonly adminPort?: number | undefined };
  readonly control: ServerControl;
  /** Prefix of the ids of predictions that this process creates. */
  readonly owner: string;
  /**
   * Whether this process continues the predictions of an owner (id prefix) after a restart; by default it continues
   * all.
   */
  readonly isOwn?: (owner: string) => boolean;
  /** Counters of requests and of the event loop, in memory that the HTTP processes share. */
  readonly metrics?: Metrics;
  /** Process ids of the server by their names in metrics; engine processes are not included. */
  readonly processes: () => Readonly<Record<string, number>>;
  /** Whether this process reports the size of the store. Only one of the processes that share a database reports it. */
  readonly countsStore?: boolean;
  /** Whether an earlier process with this index was ready. */
  readonly wasReady?: boolean | undefined;
  /** Whether to open the port only when this process is ready, because other processes already answer. */
  readonly listensLate?: boolean;
  readonly siblings?: SiblingsOptions;
  /**
   * Whether no other server runs predictions of the same store (default true). False until the server that
   * --take-over replaces has ended.
   */
  readonly hasClaim?: boolean | undefined;
  /**
   * Called when this process has finished its accepted work. The promise resolves when all processes have, and this
   * process then stops.
   */
  readonly othersDone?: () => Promise<void>;
  /** Accepted, unfinished work of this process, in memory that other processes read. */
  readonly unfinished?: Unfinished;
  /** Sums of the accepted, unfinished work of the other HTTP processes. */
  readonly others?: () => Readonly<Unfinished>;
  /** Counters of the API keys, in memory that the HTTP processes share. Default: counters of this process alone. */
  readonly keyCounts?: KeyCounts;
  readonly memory?: MemoryAccountOptions["siblings"];
  /** Called when all models are set up, before predictions of an earlier process continue. */
  readonly onSetUp?: () => void;
  /** Names the running call of a hook to the supervisor; undefined without a supervisor. */
  readonly hookCell?: HookCell | undefined;
  /** Calls of hooks that blocked earlier processes. */
  readonly guilty?: readonly HookCall[] | undefined;
  /** Set if the last process was blocked: by one of these calls, or by an unknown call. */
  readonly blocked?: "by guilty" | "by unknown" | undefined;
}

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
 * Opens the shared parts, the port first.
 * @param opened gets the parts, and closes them when it is disposed
 * @throws SconceError `address_in_use`, or `usage` for a faulty file of API keys or a wrong variable of OpenTelemetry
 */
export async function openShared(options: FrontOptions, opened: AsyncDisposableStack): Promise<FrontShared> {
  const { config, metrics = new Metrics() } = options;
  const lifecycle = new Lifecycle();
  if (options.wasReady) lifecycle.phase = "restarting";
  const port = opened.use(new FrontPort(options, lifecycle));
  if (options.listensLate !== true) port.open();
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
