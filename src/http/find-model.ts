/** Finds the model that answers a request, before the router. */
import type { ApiKeys } from "./access/api-keys.ts";
import type { HttpOptions } from "./options.ts";
import { ProblemError } from "./problem.ts";
import { pathOf, type RequestContext, withoutPrefix } from "./request.ts";
import type { ServedName, ServedNames } from "./served-model.ts";

interface FinderOptions {
  readonly config: Pick<HttpOptions, "basePath">;
  readonly keys: ApiKeys | undefined;
  readonly names: ServedNames;
}

/** Returns a function that sets the model of a request, and the path that the router matches. */
export function modelFinder({
  config: { basePath },
  keys,
  names,
}: FinderOptions): (request: Request, context: RequestContext) => void {
  return (request, context) => {
    const full = pathOf(request);
    const path = basePath === "" ? full : withoutPrefix(full, basePath);
    context.path = path;
    context.served = names.list[0];
    if (path.includes("/models/")) findNamed(path, request, context);
  };

  function findNamed(path: string, request: Request, context: RequestContext): void {
    context.key ??= keys?.find(request.headers);
    if (keys !== undefined && context.key === undefined) {
      findWithoutKey(path, context);
      return;
    }
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
    // The page and the documentation ask for the key. They contain no facts about a model, so those of any model will do.
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
