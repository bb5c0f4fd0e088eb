/** Finds the path, the API key and the model of a request, before the router sees the request. */
import { getPathNoStrict } from "hono/utils/url";
import type { ApiKeys } from "./access/api-keys.ts";
import type { HttpOptions } from "./options.ts";
import { ProblemError } from "./problem.ts";
import { type RequestContext, urlOf } from "./request.ts";
import type { ServedName, ServedNames } from "./served-model.ts";

interface FinderOptions {
  readonly config: Pick<HttpOptions, "basePath">;
  readonly keys: ApiKeys | undefined;
  readonly names: ServedNames;
}

/** Returns a function that sets the path that the router matches, the API key and the model of a request. */
export function modelFinder({ config: { basePath }, keys, names }: FinderOptions): (context: RequestContext) => void {
  // The next request often has the same URL.
  let last = { url: "", path: "" };
  return (context) => {
    const { url } = context.request;
    if (url !== last.url) last = { url, path: withoutPrefix(pathOf(context.request), basePath) };
    const { path } = last;
    context.path = path;
    context.served = names.list[0];
    context.key = keys?.find(context.request.headers);
    if (!path.includes("/models/")) return;
    if (keys !== undefined && context.key === undefined) findWithoutKey(path, context);
    else findNamed(context);
  };

  function findNamed(context: RequestContext): void {
    const isNamed = context.path.startsWith("/models/");
    findBelow("/models/", "", context);
    findBelow("/v2/models/", "/v2/models/{model}", context, isNamed ? context.served : undefined);
    if (context.path === "") context.path = "/";
  }

  /**
   * Finds the name in the path after `start`. The longest name wins, because names may contain slashes.
   * @param shortened replaces the start and the name
   * @param only the model that the path may name; any model if it is undefined
   */
  function findBelow(start: string, shortened: string, context: RequestContext, only?: ServedName): void {
    const { path } = context;
    if (!path.startsWith(start)) return;
    context.served = undefined;
    for (let end = path.length; end > start.length; end = path.lastIndexOf("/", end - 1)) {
      const served = names.named(path.slice(start.length, end));
      if (served === undefined || (only !== undefined && served !== only)) continue;
      const modelPath = `/models/${served.name}`;
      Object.assign(context, { served, metrics: served.metrics, modelPath, path: shortened + path.slice(end) });
      return;
    }
  }

  /** Finds no name for a request without a valid API key, so that the answer does not tell which names exist. */
  function findWithoutKey(path: string, context: RequestContext): void {
    // The page and the documentation ask for the key. Both contain no facts about a model, so any model can answer.
    const [, open] = /^\/models\/.+(\/(?:demo|docs)(?:\/assets\/.*)?)$/.exec(path) ?? [];
    if (open === undefined) return;
    context.path = open;
    context.served = names.list.find(({ model }) => !(model instanceof ProblemError)) ?? names.list[0];
  }
}

/** The decoded path of a request, without a slash at its end. */
function pathOf(request: Request): string {
  const url = urlOf(request);
  const path = getPathNoStrict(url === request.url ? request : new Request(url));
  return url.includes("%") ? (decodedPath(url) ?? path) : path;
}

/** Hono leaves the escapes of `:`, `/`, `@` and the like, which clients write in the name of a model. */
function decodedPath(url: string): string | undefined {
  const { pathname } = new URL(url);
  try {
    return decodeURIComponent(pathname).replace(/(?<=.)\/$/, "");
  } catch {
    return undefined;
  }
}

function withoutPrefix(path: string, prefix: string): string {
  if (path === prefix) return "/";
  return path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
}
