/** Serves the static files of a page. */
import type { Hono } from "hono";
import { compress } from "hono/compress";
import { etag } from "hono/etag";
import { ProblemError } from "./problem.ts";

interface Asset {
  /** Path on disk. In a compiled executable, a path inside the executable. */
  readonly path: string;
  readonly type: string;
}

/** Adds the files of the page at `page` below `folder`. Browsers keep the files, and ask each time whether they have changed. */
export function addAssets(
  app: Pick<Hono, "get">,
  page: string,
  folder: string,
  files: Readonly<Record<string, Asset>>,
): void {
  app.get(`${folder}/:file`, etag(), compress(), (c) => {
    const { file } = c.req.param();
    const asset = Object.hasOwn(files, file) ? files[file] : undefined;
    if (asset === undefined) {
      throw new ProblemError({ code: "not_found", detail: `there is no such part of GET ${page}` });
    }
    const headers = { "Content-Type": asset.type, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff" };
    return new Response(Bun.file(asset.path), { headers });
  });
}
