/** The models of an HTTP process. Chooses the model that answers a request. */
import { generatedTag } from "../package/store/reference.ts";
import { appOf, hindranceOf } from "./front-app.ts";
import type { FrontModel } from "./front-model.ts";
import type { FrontShared } from "./front-shared.ts";
import { type BrokenModel, type NamedModel, takesModelNames } from "./http/apis/apis.ts";
import { pathOf, type RequestContext, withoutPrefix } from "./http/request.ts";
import type { Hindrance } from "./http/routes/health.ts";
import {
  type BrokenAppOptions,
  brokenModel,
  createBrokenApp,
  createModelsApp,
  type ListedModel,
} from "./http/routes/models.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { ServerMetrics } from "./metrics/server-metrics.ts";
import type { Predictions } from "./predictions/predictions.ts";
import { clientIdOf, SplitPredictions, versionOf } from "./predictions/split.ts";
import { type Answer, type Entry, namesOf, openEntry, renamed, type Split, type Version } from "./served-entry.ts";

export class ServedModels {
  readonly #shared: FrontShared;
  readonly #entries: readonly Entry[];
  /** Models by each of their names in paths, such as `digits` and `digits:v1`. */
  readonly #byName = new Map<string, Entry>();
  readonly #splits: ReadonlyMap<string, Split>;
  readonly metrics: Pick<Metrics, "text" | "gauges" | "families">;
  readonly #list: Answer;
  /** Answers all paths that name no model. */
  #root: Answer = () => new Response(null, { status: 503 });
  readonly #isSeveral: boolean;

  /**
   * Opens the models. The first one also answers paths without a model name.
   * @param opened gets the models, and closes them when it is disposed
   * @throws SconceError if the server's only model is broken. Among several, a broken model answers with its error.
   */
  static async open(shared: FrontShared, opened: AsyncDisposableStack): Promise<ServedModels> {
    const { models } = shared.options;
    const entries = await Promise.all(models.map((options) => openEntry(shared, options, opened)));
    const served = new ServedModels(shared, entries);
    for (const { front, options } of entries) {
      const shadow = options.isShadow ? front?.openShadow() : undefined;
      if (shadow === undefined) continue;
      opened.use(shadow);
      const { repository } = options.packaged;
      const others = entries.filter(
        (each) => !each.options.isShadow && each.options.packaged.repository === repository,
      );
      for (const other of others) other.front?.parts.service?.live.shadows.push(shadow);
    }
    const [first] = entries;
    const split = served.#splits.get(first?.options.split?.name ?? "");
    const { basePath } = shared.options.config;
    if (split !== undefined) {
      served.#root = (request, context) => served.#answer(split, "", request, context);
    } else if (first !== undefined) served.#root = await served.#appOf(first, basePath);
    return served;
  }

  private constructor(shared: FrontShared, entries: readonly Entry[]) {
    this.#shared = shared;
    this.#entries = entries;
    this.#isSeveral = entries.length > 1;
    for (const entry of entries) {
      const { name, tag, packaged } = entry.options;
      for (const each of [name, `${name}:${tag}`, `${name}:${generatedTag(packaged.digest)}`]) {
        if (!this.#byName.has(each)) this.#byName.set(each, entry);
      }
    }
    const versions = entries.flatMap((entry) => {
      const { split, name } = entry.options;
      return split === undefined ? [] : [{ split: split.name, version: { name, weight: split.weight, entry } }];
    });
    const splits = Map.groupBy(versions, ({ split }) => split);
    this.#splits = new Map(
      [...splits].map(([name, all]) => [
        name,
        { name, creating: new Map(), versions: all.map(({ version }) => version) },
      ]),
    );
    const [first] = entries;
    this.metrics =
      first === undefined || !this.#isSeveral
        ? shared.metrics
        : new ServerMetrics(shared.metrics, new Map(entries.map(({ options, metrics }) => [options.name, metrics])));
    shared.all.metrics = this.metrics;
    const { config } = shared.options;
    this.#list = createModelsApp({
      ...this.#guards,
      basePath: config.basePath,
      models: () => this.#listed(),
      engineOf: (name) => this.#byName.get(name)?.options.engine,
      onHold: shared.port.hold,
    }).fetch;
  }

  get opened(): FrontModel[] {
    return this.#entries.flatMap(({ front }) => front ?? []);
  }

  /** Why no model can finish predictions; undefined if one can. */
  get hindrance(): Hindrance | undefined {
    const hindrances = this.opened.map(hindranceOf);
    if (hindrances.length === 0) return "engine";
    return hindrances.every((each) => each !== undefined) ? hindrances[0] : undefined;
  }

  /** Whether a model runs a prediction with this id, or its store has one. */
  async has(id: string): Promise<boolean> {
    for (const front of this.opened) if (await front.has(id)) return true;
    return false;
  }

  /** Answers a request. A search in the URL is cheaper than parsing the path, which few requests need. */
  readonly fetch: Answer = (request, context) => {
    const { url } = request;
    const namesModel = url.includes("/models") || (this.#isSeveral && url.includes("/v2/repository"));
    return namesModel ? this.#answerNamed(request, context) : this.#root(request, context);
  };

  #answerNamed(request: Request, context: RequestContext): Response | Promise<Response> {
    const { keys, options } = this.#shared;
    const { basePath } = options.config;
    const given = pathOf(request);
    const path = basePath === "" ? given : withoutPrefix(given, basePath);
    context.key ??= keys?.find(request.headers);
    if (keys !== undefined && context.key === undefined) return this.#answerWithoutKey(given, path, request, context);
    const found = this.#below(path, "/models/");
    if (found !== undefined) {
      const { named, rest } = found;
      context.prefix = given.slice(0, given.length - rest.length);
      context.modelPath = `/models/${nameOf(named)}`;
      return this.#answer(named, context.modelPath, request, context);
    }
    const isList = path === "/models" || path.startsWith("/models/") || path.startsWith("/v2/repository/models/");
    const isOfAll = path === "/v2/models/stats" || path === "/v2/repository/index";
    if (isList || (this.#isSeveral && isOfAll)) return this.#list(request, context);
    const other = this.#isSeveral ? this.#below(path, "/v2/models/") : undefined;
    if (other === undefined) return this.#root(request, context);
    context.prefix = given.slice(0, given.length - path.length);
    return this.#answer(other.named, `/models/${nameOf(other.named)}`, request, context);
  }

  /** Answers a request without a valid API key. Looks for no model, so that the answer does not tell which names exist. */
  #answerWithoutKey(given: string, path: string, request: Request, context: RequestContext): ReturnType<Answer> {
    // The page and the documentation ask for the key. They contain no facts about a model, so those of any model will do.
    const [, open] = /^\/models\/.+(\/(?:demo|docs)(?:\/assets\/.*)?)$/.exec(path) ?? [];
    const usable = open === undefined ? undefined : this.#entries.find(({ served }) => served !== undefined);
    if (open === undefined || usable === undefined) return this.#list(request, context);
    context.prefix = given.slice(0, given.length - open.length);
    return this.#answer(usable, `/models/${usable.options.name}`, request, context);
  }

  /** The model that a path names after `start`. The longest name wins, because names may contain slashes. */
  #below(path: string, start: string): { readonly named: Entry | Split; readonly rest: string } | undefined {
    if (!path.startsWith(start)) return undefined;
    for (let end = path.length; end > start.length; end = path.lastIndexOf("/", end - 1)) {
      const name = path.slice(start.length, end);
      const named = this.#splits.get(name) ?? this.#byName.get(name);
      if (named !== undefined) return { named, rest: path.slice(end) };
    }
    return undefined;
  }

  /**
   * Answers with the app of a model or version.
   * @param path URL path of the model, before the paths of its routes
   */
  async #answer(named: Entry | Split, path: string, request: Request, context: RequestContext): Promise<Response> {
    const [entry, split] = "versions" in named ? [this.#chosen(named, request, context), named] : [named, undefined];
    context.metrics = entry.metrics;
    let app = entry.apps.get(path);
    if (app === undefined) {
      app = this.#appOf(entry, `${this.#shared.options.config.basePath}${path}`, split);
      entry.apps.set(path, app);
    }
    return (await app)(request, context);
  }

  /** The version that answers a client. Clients of a version that cannot be opened or loaded get another version. */
  #chosen({ name, versions }: Split, request: Request, context: RequestContext): Entry {
    const { keys, port } = this.#shared;
    context.key ??= keys?.find(request.headers);
    context.clientId ??= clientIdOf(request, context.key?.name, port.peerOf(request)?.address);
    const [client, opened] = [context.clientId, versions.filter(({ entry }) => entry.front !== undefined)];
    const chosen =
      versionOf(client, versions.filter(isUsable)) ?? versionOf(client, opened) ?? versionOf(client, versions);
    if (chosen === undefined) throw new RangeError(`no version of ${name} has a weight`);
    return chosen.entry;
  }

  async #appOf({ front, served: own, fault }: Entry, basePath: string, split?: Split): Promise<Answer> {
    const served = own && split ? renamed(own, split.name) : own;
    const isRoot = basePath === this.#shared.options.config.basePath;
    if (front === undefined || served === undefined) {
      const { lifecycle, siblings, port, options } = this.#shared;
      const { control } = options;
      const server = { lifecycle, siblings, control, onHold: port.hold, allMetrics: this.metrics };
      const broken = createBrokenApp(
        { ...this.#guards, basePath },
        brokenModel(fault ?? ""),
        isRoot ? server : undefined,
      ).fetch;
      const usable = isRoot ? this.#entries.find((entry) => entry.served !== undefined) : undefined;
      if (usable === undefined) return broken;
      // Although the first model is broken, requests of some APIs name another model in the body. A usable model's app
      // answers them.
      const app = await this.#appOf(usable, basePath);
      return (request, context) => {
        const path = withoutPrefix(pathOf(request), basePath);
        return takesModelNames(path) ? app(request, context) : broken(request, context);
      };
    }
    const home =
      isRoot && this.#isSeveral && this.#shared.keys === undefined && this.#shared.options.config.api.includes("page")
        ? "models"
        : undefined;
    return appOf(front, {
      served,
      basePath,
      allMetrics: this.metrics,
      lifecycle: isRoot ? this.#shared.lifecycle : front.lifecycle,
      home,
      named: isRoot ? this.#named : undefined,
      modelNames: isRoot && this.#isSeveral ? this.#entries.map((entry) => entry.options.name) : undefined,
      predictions: split && splitPredictions(split, front),
    }).fetch;
  }

  /** The models that a request to the root may name. */
  get #named(): readonly (NamedModel<Predictions> | BrokenModel)[] {
    return this.#entries.flatMap((entry) => {
      const split = this.#splits.get(entry.options.split?.name ?? "");
      if (split === undefined) return namesOf(entry);
      const isFor = (request: Request, context: RequestContext) => this.#chosen(split, request, context) === entry;
      return namesOf(entry, { name: split.name, isFor });
    });
  }

  get #guards(): Omit<BrokenAppOptions, "basePath"> {
    const { keys, metrics, options } = this.#shared;
    return { config: options.config, keys, metrics };
  }

  #listed(): readonly ListedModel[] {
    return this.#entries.map(({ options, metrics, front, served, fault }) => ({
      name: options.name,
      tag: generatedTag(options.packaged.digest),
      digest: options.packaged.digest,
      state: front === undefined ? "failed" : (options.engine?.state ?? "ready"),
      reason: fault ?? (options.engine?.state === "failed" ? options.engine.reason : undefined),
      metrics,
      served,
      split: options.split,
      isShadow: options.isShadow,
    }));
  }
}

function nameOf(named: Entry | Split): string {
  return "versions" in named ? named.name : named.options.name;
}

/** Whether a version can run predictions. After a failed load, also asks for another load. */
function isUsable({ entry: { front, options } }: Version): boolean {
  if (options.engine?.state === "failed") options.engine.need();
  return front !== undefined && options.engine?.state !== "failed";
}

function splitPredictions({ versions, creating }: Split, own: FrontModel): Predictions | undefined {
  const others = versions.flatMap(({ entry: { front } }) => (front === own ? [] : (front?.predictions ?? [])));
  return own.predictions && new SplitPredictions(own.predictions, others, creating);
}
