/** Serves static files that browsers may cache for ever, because their URLs contain a digest of their content. */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Context, Hono } from "hono";
import { ProblemError } from "./problem.ts";

interface Asset {
  /** Path on disk. In a compiled executable, a path inside the executable. */
  readonly path: string;
  readonly type: string;
}

export interface ImmutableAssetsOptions {
  /** Path of the HTML page that loads the files, such as `/docs`. */
  readonly page: string;
  /** The files' URLs have a folder named `LABEL@DIGEST`. */
  readonly label: string;
  readonly files: Readonly<Record<string, Asset>>;
}

export class ImmutableAssets {
  readonly #options: ImmutableAssetsOptions;
  readonly #compressed = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  #digest: Promise<string> | undefined;

  constructor(options: ImmutableAssetsOptions) {
    this.#options = options;
  }

  addRoute(app: Pick<Hono, "get">): void {
    app.get(`${this.#options.page}/assets/:folder/:file`, async (c) => {
      const { folder, file } = c.req.param();
      const asset = Object.hasOwn(this.#options.files, file) ? this.#options.files[file] : undefined;
      if (asset !== undefined && folder === (await this.folder())) return this.#answer(c, asset);
      throw new ProblemError({
        code: "not_found",
        detail: `there is no such part of GET ${this.#options.page}`,
      });
    });
  }

  /** Name of the folder in the files' URLs, `LABEL@DIGEST`. The folder does not exist on disk. */
  async folder(): Promise<string> {
    return `${this.#options.label}@${await this.digest()}`;
  }

  /** A digest of the content of all files, 16 hexadecimal digits. The first call reads the files. */
  digest(): Promise<string> {
    this.#digest ??= (async () => {
      const hasher = new Bun.CryptoHasher("sha256");
      for (const { path } of Object.values(this.#options.files)) hasher.update(await Bun.file(path).bytes());
      return hasher.digest("hex").slice(0, 16);
    })();
    return this.#digest;
  }

  async #answer(c: Context, { path, type }: Asset): Promise<Response> {
    const headers = {
      "Content-Type": type,
      "Cache-Control": "public, max-age=31536000, immutable",
      Vary: "Accept-Encoding",
      "X-Content-Type-Options": "nosniff",
    };
    if (!/\bgzip\b/.test(c.req.header("Accept-Encoding") ?? "")) return new Response(Bun.file(path), { headers });
    let bytes = this.#compressed.get(path);
    if (bytes === undefined) {
      bytes = Bun.file(path).bytes().then(promisify(gzip)).then(asBytes);
      this.#compressed.set(path, bytes);
    }
    return new Response(await bytes, { headers: { ...headers, "Content-Encoding": "gzip" } });
  }
}

function asBytes(buffer: Buffer): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer);
}
