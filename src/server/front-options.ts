/** The options of a front, and of each model in it. */

import type { KeyCounts } from "../http/access/api-key.ts";
import type { ListenOptions } from "../http/listener.ts";
import type { ServerControl } from "../http/server-control.ts";
import type { SiblingsOptions } from "../http/siblings.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { HookCall, HookCell } from "../pipeline/hook-cell.ts";
import type { MemoryAccount, MemoryAccountOptions } from "../pipeline/memory/memory-account.ts";
import type { RunningModel } from "../pipeline/set-up.ts";
import type { Unfinished } from "../predictions/admission.ts";
import type { ModelVersion } from "../predictions/model-version.ts";
import type { PredictionStore } from "../predictions/store.ts";
import type { ServeConfig } from "./config.ts";
import type { EngineLink, FrontTools } from "./engine-link.ts";
import type { Metrics } from "./metrics/metrics.ts";

export interface FrontModelOptions {
  readonly name: string;
  /** Tag in the reference that the server was started with. Paths may name the model as `NAME:TAG`. */
  readonly tag: string;
  readonly version: ModelVersion;
  /** Finds the package of the build. @throws SconceError if the store has it no more */
  readonly resolve: () => Promise<PackagedModel>;
  /** Options of the server, overridden by the model's own options. */
  readonly config: ServeConfig;
  /** Counters of this model in memory that all HTTP processes share. Default: the process's counters. */
  readonly metrics?: Metrics;
  readonly engine?: EngineLink | undefined;
  /** Opens the engine, after the port. Undefined with --role front. */
  readonly run: ((tools: FrontTools) => Promise<RunningModel>) | undefined;
  readonly openStore: (memory: MemoryAccount) => Promise<PredictionStore>;
}

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
  /**
   * Called when all models are set up. The promise resolves when the server has started; then predictions of an earlier
   * process continue, and the port answers.
   */
  readonly started?: () => Promise<void>;
  /** Names the running call of a hook to the supervisor; undefined without a supervisor. */
  readonly hookCell?: HookCell | undefined;
  /** Calls of hooks that blocked earlier processes. */
  readonly guilty?: readonly HookCall[] | undefined;
  /** Whether one of these calls blocked the last process. */
  readonly isCauseKnown?: boolean | undefined;
}
