/** The models of an HTTP process. Chooses the model that answers a request. */

import { takesModelNames } from "../http/apis/apis.ts";
import { pathOf, type RequestContext, withoutPrefix } from "../http/request.ts";
import type { Hindrance } from "../http/routes/health.ts";
import {
  type BrokenAppOptions,
  brokenModel,
  createBrokenApp,
  createModelsApp,
  type ListedModel,
} from "../http/routes/models.ts";
import { generatedTag } from "../package/store/reference.ts";
import { appOf, hindranceOf, servedModel } from "./front-app.ts";
import type { FrontModel } from "./front-model.ts";
import type { FrontModelOptions } from "./front-options.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { ServerMetrics } from "./metrics/server-metrics.ts";
import { type Answer, type Entry, namesOf, openEntry, openNext, pathNamesOf } from "./served-entry.ts";

export class ServedModels {
  readonly #shared: FrontShared;
  readonly #entries: readonly Entry[];
  /** Models by each of their names in paths, such as `digits` and `digits:v1`. */
  #byName = new Map<string, Entry>();
  readonly metrics: Pick<Metrics, "text" | "gauges">;
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
    const served = new ServedModels(
      shared,
      await Promise.all(models.map((options) => openEntry(shared, options, opened))),
    );
    await served.#route();
    return served;
  }

  private constructor(shared: FrontShared, entries: readonly Entry[]) {
    this.#shared = shared;
    this.#entries = entries;
    this.#isSeveral = entries.length > 1;
    const [first] = entries;
    this.metrics =
      first === undefined || !this.#isSeveral
        ? shared.metrics
        : new ServerMetrics(shared.metrics, new Map(entries.map(({ options, metrics }) => [options.name, metrics])));
    const { config } = shared.options;
    this.#list = createModelsApp({
      ...this.#guards,
      basePath: config.basePath,
      models: () => this.#listed(),
      engineOf: (name) => this.#byName.get(name)?.options.engine,
      onHold: shared.port.hold,
    }).fetch;
  }

  /** Makes requests reach the current builds of the models. */
  async #route(): Promise<void> {
    const named = this.#entries.flatMap((entry) => pathNamesOf(entry).map((name) => ({ name, entry })));
    // The first model with a name has it.
    this.#byName = new Map(named.reverse().map(({ name, entry }) => [name, entry]));
    const [first] = this.#entries;
    if (first !== undefined) this.#root = await this.#appOf(first, this.#shared.options.config.basePath);
  }

  /** Opens a build of a name beside the one that answers. @throws SconceError an error of its set-up */
  async openNext(options: FrontModelOptions): Promise<void> {
    await openNext(this.#entryOf(options.name), options);
  }

  /** Closes a build that `openNext` opened. */
  async closeNext(name: string): Promise<void> {
    await this.#entryOf(name).front?.closeNext();
  }

  /** Resolves when the build that `switchToNext` has replaced has ended its predictions, and is closed. */
  async earlierEnded(name: string): Promise<void> {
    await this.#entryOf(name).front?.earlierEnded;
  }

  /** Gives new requests to the opened build. */
  async switchToNext(name: string): Promise<void> {
    const entry = this.#entryOf(name);
    const { front } = entry;
    if (front === undefined) return;
    front.switchToNext();
    entry.options = front.options;
    entry.served = await servedModel(front);
    for (const each of this.#entries) each.apps.clear();
    await this.#route();
  }

  #entryOf(name: string): Entry {
    const entry = this.#entries.find(({ options }) => options.name === name);
    if (entry === undefined) throw new RangeError(`there is no model ${name}`);
    return entry;
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
      context.modelPath = `/models/${named.options.name}`;
      return this.#answer(named, context.modelPath, request, context);
    }
    const isList = path === "/models" || path.startsWith("/models/") || path.startsWith("/v2/repository/models/");
    const isOfAll = path === "/v2/models/stats" || path === "/v2/repository/index";
    if (isList || (this.#isSeveral && isOfAll)) return this.#list(request, context);
    const other = this.#isSeveral ? this.#below(path, "/v2/models/") : undefined;
    if (other === undefined) return this.#root(request, context);
    context.prefix = given.slice(0, given.length - path.length);
    return this.#answer(other.named, `/models/${other.named.options.name}`, request, context);
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
  #below(path: string, start: string): { readonly named: Entry; readonly rest: string } | undefined {
    if (!path.startsWith(start)) return undefined;
    for (let end = path.length; end > start.length; end = path.lastIndexOf("/", end - 1)) {
      const named = this.#byName.get(path.slice(start.length, end));
      if (named !== undefined) return { named, rest: path.slice(end) };
    }
    return undefined;
  }

  /**
   * Answers with the app of a model.
   * @param path URL path of the model, before the paths of its routes
   */
  async #answer(entry: Entry, path: string, request: Request, context: RequestContext): Promise<Response> {
    context.metrics = entry.metrics;
    let app = entry.apps.get(path);
    if (app === undefined) {
      app = this.#appOf(entry, `${this.#shared.options.config.basePath}${path}`);
      entry.apps.set(path, app);
    }
    return (await app)(request, context);
  }

  async #appOf({ front, served, fault }: Entry, basePath: string): Promise<Answer> {
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
      named: isRoot ? this.#entries.flatMap(namesOf) : undefined,
      modelNames: isRoot && this.#isSeveral ? this.#entries.map((entry) => entry.options.name) : undefined,
    }).fetch;
  }

  get #guards(): Omit<BrokenAppOptions, "basePath"> {
    const { keys, metrics, options } = this.#shared;
    return { config: options.config, keys, metrics };
  }

  #listed(): readonly ListedModel[] {
    return this.#entries.map(({ options, metrics, front, served, fault }) => ({
      name: options.name,
      tag: generatedTag(options.version.digest),
      digest: options.version.digest,
      state: front === undefined ? "failed" : (options.engine?.state ?? "ready"),
      reason: fault ?? (options.engine?.state === "failed" ? options.engine.reason : undefined),
      metrics,
      served,
    }));
  }
}
