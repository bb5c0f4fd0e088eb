/**
 * An earlier build of a model finishes the predictions that it accepted before its server was killed. The build has a
 * separate HTTP process and engine process, which do not listen on the port.
 */
import { codedError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { makeRunFolder, type RunFolder } from "../machine/processes/run-folder.ts";
import { Supervised } from "../machine/processes/supervised.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { FrontStart } from "./front-process.ts";
import { FOREVER_MS, type FrontsModel, shareFiles } from "./fronts.ts";
import { allDone, type Relative, type RelativesNews } from "./messages.ts";
import { ModelEngine } from "./model-engine.ts";
import { ModelFronts } from "./model-fronts.ts";
import type { PredictionStore } from "./predictions/store.ts";
import { heldAfterMs } from "./serve-limits.ts";

export interface EarlierLaunch {
  /** The command line with which child processes find the model and its libraries. */
  readonly argv: readonly string[];
  /** Name of the server in the stores of predictions. */
  readonly server: string;
  readonly source: Pick<ModelSource, "resolve" | "verify" | "unpackLibraries"> | undefined;
}

/** The earlier builds with predictions in the stores, when a server starts. */
export class EarlierBuilds {
  readonly #launch: EarlierLaunch;
  readonly #builds: EarlierBuild[] = [];
  /** Builds with unfinished predictions that are not started yet. */
  readonly #found: EarlierBuild[] = [];
  #news: RelativesNews = { relatives: [], unavailable: {} };
  #isStopping = false;

  constructor(launch: EarlierLaunch) {
    this.#launch = launch;
  }

  /** Looks in the store of a model for predictions of other builds. */
  async find({ name, packaged, config, store: path }: FrontsModel, store: PredictionStore): Promise<void> {
    const { source } = this.#launch;
    const references = new Set((await store.sources?.())?.map(({ model }) => model?.reference));
    for (const reference of references) {
      if (reference === undefined || reference === packaged.byDigest || config.takeOver) continue;
      let { relatives, unavailable } = this.#news;
      if (relatives.some(({ build }) => build === reference)) continue;
      try {
        const earlier = await source?.resolve(reference);
        if (earlier === undefined) continue;
        const model = { name, packaged: earlier, config, store: path };
        const build = new EarlierBuild(model, await makeRunFolder(), this.#launch);
        this.#builds.push(build);
        this.#found.push(build);
        relatives = [...relatives, build.relative];
      } catch (error) {
        const { code, message } = codedError(error);
        const reason = code === "model_not_found" ? "is not in the model store" : "cannot be read";
        log.warn(`${reference} does not finish its predictions: ${message}`);
        unavailable = { ...unavailable, [reference]: reason };
      }
      this.#news = { relatives, unavailable };
    }
  }

  get news(): RelativesNews {
    return this.#news;
  }

  /**
   * Starts the earlier builds. @param changed called each time a build has finished its predictions, or could not start
   */
  start(changed: (news: RelativesNews) => void): void {
    for (const build of this.#found.splice(0)) {
      const ended = (unavailable: RelativesNews["unavailable"]) => {
        const relatives = this.#news.relatives.filter((each) => each !== build.relative);
        this.#news = { relatives, unavailable: { ...this.#news.unavailable, ...unavailable } };
        // When the server stops, the next start continues unfinished predictions.
        if (!this.#isStopping) changed(this.#news);
      };
      build.run().then(
        () => ended({}),
        (error: unknown) => {
          const { message } = codedError(error);
          log.error(`${build.relative.build} does not start, and does not finish its predictions: ${message}`);
          // Clients see this reason. The message of the error is only logged, because it may have paths.
          ended({ [build.relative.build]: "does not start" });
        },
      );
    }
  }

  /** Kills the processes of the earlier builds. The store keeps their predictions. */
  async end(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#builds.map((build) => build.end()));
  }

  /** Finishes the predictions of the earlier builds, within the time limits of a stopping server. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#builds.map((build) => build.stop()));
  }
}

class EarlierBuild {
  readonly relative: Relative & { readonly build: string };
  readonly #folder: RunFolder;
  readonly #front: Supervised;
  readonly #engine: ModelEngine;
  readonly #finished = Promise.withResolvers<void>();
  #closing: Promise<void> | undefined;

  constructor(
    { name, packaged, config: all, store }: FrontsModel,
    folder: RunFolder,
    { argv, source, server }: EarlierLaunch,
  ) {
    const config = { ...all, adminPort: undefined };
    this.#folder = folder;
    const reference = packaged.byDigest;
    const { start, counts } = shareFiles({ config, folder, count: 1, port: 0, models: 1 });
    this.relative = { sockets: start.sockets, build: reference };
    const shared = {
      ...start,
      argv: [...argv],
      index: 0,
      isRestart: false,
      waitsToListen: false,
      server,
      onlyBuild: reference,
    };
    this.#front = new Supervised({
      role: "front",
      name: `front process of ${reference}`,
      start: (): FrontStart => {
        // The process buffers messages until it can handle them.
        queueMicrotask(() => fronts.repeat(this.#front));
        const models = counts.map((path) => ({ name, tag: packaged.tag, reference, config, store, counts: path }));
        return { ...shared, models, unix: folder.join("port.sock"), relatives: { relatives: [], unavailable: {} } };
      },
      batchTimeoutMs: heldAfterMs(config),
      onMessage: () => {
        this.#finished.resolve();
        this.#front.send(allDone);
      },
    });
    const fronts = new ModelFronts({ model: 0, fronts: [this.#front] });
    this.#engine = new ModelEngine({
      ...{ name, packaged, config, argv, source, folder },
      socketName: "engine",
      events: fronts,
    });
  }

  /** Resolves when all predictions of the build have ended. @throws SconceError the failure of the model's set-up */
  async run(): Promise<void> {
    try {
      log.info(`${this.relative.build} finishes the predictions that it accepted`);
      await Promise.all([this.#front.start(), this.#engine.start()]);
      await this.#finished.promise;
    } finally {
      await this.stop();
    }
  }

  stop(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async end(): Promise<void> {
    await this.#front.stop(0);
    await this.stop();
  }

  async #close(): Promise<void> {
    this.#finished.resolve();
    await this.#front.stop(FOREVER_MS);
    await this.#engine.stop();
    await this.#folder[Symbol.asyncDispose]();
  }
}
