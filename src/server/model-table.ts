/** The builds that a server serves, and their states. The supervisor changes them, and sends them to the fronts. */
import type { ModelState } from "../base/labels.ts";
import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import { labelOf, type ModelRecord, type Snapshot } from "./messages.ts";

/** A model, and the options with which a server serves it. */
export interface ServedOptions {
  /** Name in paths and metrics. */
  readonly name: string;
  readonly packaged: PackagedModel;
  /** The model's own options, which override those of the server. */
  readonly options: Partial<ServeConfig>;
  /** Hash of all that the engine process loads: a reload keeps the process if it is equal. Undefined: never equal. */
  readonly engineKey?: string | undefined;
}

/** An engine process that can be started again after a stop. */
export interface Loadable {
  /** Socket of the process; undefined while it does not run. */
  readonly socket: string | undefined;
  /** Why the process before ended, to follow "the engine process". */
  readonly ended: string | undefined;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface BuildOptions extends Pick<ModelRecord, "counts" | "store"> {
  readonly served: ServedOptions;
  /** Position of the model in the list of the server. */
  readonly slot: number;
  readonly engine: Loadable;
}

/** A build in the supervisor. */
export class Build {
  readonly options: BuildOptions;
  readonly number: number;
  stage: ModelRecord["stage"];
  /** `ready` also while an engine process that has crashed starts again. */
  state: ModelState = "unloaded";
  /** Whether the server loads the model at its start, and has not finished this load. */
  isStarting = false;
  /** The load or unload that runs; rejects if the load fails. */
  moving: Promise<unknown> = Promise.resolve();
  /** Why the last load failed. */
  reason: string | undefined;
  /** Why the database of predictions cannot be used. */
  storeFault: string | undefined;
  failedAtMs = -Infinity;
  /** Whether memory is reserved for the model: it is loaded, or about to be. */
  hasRoom = false;
  /** Whether a client has asked for an unload since the last load. */
  isUnloadAsked = false;

  constructor(options: BuildOptions, number: number, stage: ModelRecord["stage"]) {
    this.options = options;
    this.number = number;
    this.stage = stage;
  }

  get name(): string {
    return this.options.served.name;
  }

  /** The build in log lines. */
  get label(): string {
    return labelOf(startOf(this.options.served));
  }

  get packaged(): PackagedModel {
    return this.options.served.packaged;
  }

  get engine(): Loadable {
    return this.options.engine;
  }

  get record(): ModelRecord {
    const { served, engine, counts, store } = this.options;
    const { number, stage, state, isStarting, reason, storeFault, isUnloadAsked } = this;
    const isUnloadedByClient = state === "unloaded" && isUnloadAsked;
    const { socket, ended } = engine;
    const own = { ...startOf(served), number, counts, store, storeFault };
    return { ...own, stage, state, isStarting, reason, isUnloadedByClient, socket, ended };
  }
}

/** A model as child processes find it. */
export function startOf({ name, packaged, options }: ServedOptions) {
  return { name, tag: packaged.tag, reference: packaged.byDigest, home: packaged.home, options };
}

export class ModelTable {
  hasClaim = true;
  isDone = false;
  /** In the order of the models. */
  builds: readonly Build[] = [];
  #lastNumber = 0;
  #version = 0;

  add(options: BuildOptions, stage: "current" | "next" = "current"): Build {
    const build = new Build(options, ++this.#lastNumber, stage);
    this.builds = [...this.builds, build].sort((a, b) => a.options.slot - b.options.slot);
    return build;
  }

  /** Removes a build, and stops its engine process unless another build uses it. */
  async remove(build: Build): Promise<void> {
    this.builds = this.builds.filter((each) => each !== build);
    if (!this.builds.some(({ engine }) => engine === build.engine)) await build.engine.stop();
  }

  get(number: number): Build | undefined {
    return this.builds.find((build) => build.number === number);
  }

  /** The builds that answer requests. */
  get current(): readonly Build[] {
    return this.builds.filter(({ stage }) => stage === "current");
  }

  snapshot(): Snapshot {
    const { hasClaim, isDone } = this;
    return { version: ++this.#version, models: this.builds.map(({ record }) => record), hasClaim, isDone };
  }
}
