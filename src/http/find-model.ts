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
    else findNamed(path, context);
  };

  function findNamed(path: string, context: RequestContext): void {
    const below = nameBelow("/models/", path);
    const found = below ?? nameBelow("/v2/models/", path);
    if (found !== undefined) {
      const { served, rest } = found;
      context.served = served;
      context.metrics = served.metrics;
      context.modelPath = `/models/${served.name}`;
      if (below !== undefined) context.path = rest === "" ? "/" : rest;
    } else if (path.startsWith("/models/")) context.served = undefined;
  }

  /** Finds no name for a request without a valid API key, so that the answer does not tell which names exist. */
  function findWithoutKey(path: string, context: RequestContext): void {
    // The page and the documentation ask for the key. Both contain no facts about a model, so any model can answer.
    const [, open] = /^\/models\/.+(\/(?:demo|docs)(?:\/assets\/.*)?)$/.exec(path) ?? [];
    if (open === undefined) return;
    context.path = open;
    context.served = names.list.find(({ model }) => !(model instanceof ProblemError)) ?? names.list[0];
  }

  /** The name in a path after `start`. The longest name wins, because names may contain slashes. */
  function nameBelow(start: string, path: string): { readonly served: ServedName; readonly rest: string } | undefined {
    if (!path.startsWith(start)) return undefined;
    for (let end = path.length; end > start.length; end = path.lastIndexOf("/", end - 1)) {
      const served = names.named(path.slice(start.length, end));
      if (served !== undefined) return { served, rest: path.slice(end) };
    }
    return undefined;
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
