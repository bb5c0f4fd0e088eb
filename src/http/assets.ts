/** Serves static files that browsers may cache for ever, because their URLs contain a digest of their content. */
import type { Hono } from "hono";
import { compress } from "hono/compress";
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
  #digest: Promise<string> | undefined;

  constructor(options: ImmutableAssetsOptions) {
    this.#options = options;
  }

  addRoute(app: Pick<Hono, "get">): void {
    app.get(`${this.#options.page}/assets/:folder/:file`, compress(), async (c) => {
      const { folder, file } = c.req.param();
      const asset = Object.hasOwn(this.#options.files, file) ? this.#options.files[file] : undefined;
      if (asset === undefined || folder !== (await this.folder())) {
        throw new ProblemError({ code: "not_found", detail: `there is no such part of GET ${this.#options.page}` });
      }
      const headers = {
        "Content-Type": asset.type,
        "Cache-Control": "public, max-age=31536000, immutable",
        "X-Content-Type-Options": "nosniff",
      };
      return new Response(Bun.file(asset.path), { headers });
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
}
