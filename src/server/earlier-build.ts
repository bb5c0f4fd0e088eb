/** Runs an earlier build of a model, which finishes the predictions that it accepted before its server was killed. */
import { codedError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { makeRunFolder, type RunFolder } from "../machine/processes/run-folder.ts";
import type { ModelSource } from "../package/model-source.ts";
import { Fronts, type FrontsModel } from "./fronts.ts";
import type { Relative, RelativesNews } from "./messages.ts";
import { ModelEngine } from "./model-engine.ts";
import type { PredictionStore } from "./predictions/store.ts";

export interface EarlierLaunch {
  /** The command line with which child processes find the model and its libraries. */
  readonly argv: readonly string[];
  readonly server: string;
  readonly source: Pick<ModelSource, "resolve" | "verify" | "unpackLibraries"> | undefined;
}

/** The earlier builds that have unfinished predictions in the stores when a server opens them. */
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

  /** Looks in the store of a model for predictions of other builds, and prepares these builds. */
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
        // A build that ends because the server stops has not finished, so no change is reported.
        if (!this.#isStopping) changed(this.#news);
      };
      build.run().then(
        () => ended({}),
        (error: unknown) => {
          const { message } = codedError(error);
          log.error(`${build.relative.build} does not start, and does not finish its predictions: ${message}`);
          // Clients see this short reason, because the message of the error may have paths.
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
  readonly #fronts: Fronts;
  readonly #engine: ModelEngine;
  #closing: Promise<void> | undefined;

  constructor(
    { name, packaged, config: all, store }: FrontsModel,
    folder: RunFolder,
    { argv, source, server }: EarlierLaunch,
  ) {
    const config = { ...all, adminPort: undefined };
    const reference = packaged.byDigest;
    this.#folder = folder;
    this.#fronts = new Fronts({
      ...{ config, argv, folder, server },
      models: [{ name, packaged, config, store }],
      count: 1,
      relatives: { relatives: [], unavailable: {} },
      onlyBuild: reference,
    });
    this.relative = { sockets: [...this.#fronts.sockets], build: reference };
    this.#engine = new ModelEngine({
      ...{ name, packaged, config, argv, source, folder },
      socketName: "engine",
      events: this.#fronts.ofModel(0),
    });
  }

  /**
   * Starts the processes of the build. Resolves when its predictions have ended.
   * @throws SconceError the failure of the model's set-up
   */
  async run(): Promise<void> {
    try {
      log.info(`${this.relative.build} finishes the predictions that it accepted`);
      await Promise.all([this.#fronts.start(), this.#engine.start()]);
      await this.#fronts.done;
    } finally {
      await this.stop();
    }
  }

  stop(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async end(): Promise<void> {
    await this.#fronts.end();
    await this.stop();
  }

  async #close(): Promise<void> {
    await this.#fronts.stop();
    await this.#engine.stop();
    await this.#folder[Symbol.asyncDispose]();
  }
}
