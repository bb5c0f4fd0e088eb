/** An npm registry on loopback: it serves the given tarballs, and all other packages from node_modules. */
import { join } from "node:path";
import { z } from "zod";

export interface NpmRegistry extends AsyncDisposable {
  readonly url: string;
  /** Names of the packages whose tarballs clients have downloaded. */
  readonly downloads: readonly string[];
}

const packages = join(import.meta.dir, "..", "..", "node_modules");
const descriptionSchema = z.looseObject({ name: z.string(), version: z.string() });

export async function npmRegistry(tarballs: readonly string[]): Promise<NpmRegistry> {
  const contents = new Map<string, Promise<Package | undefined>>();
  for (const path of tarballs) {
    const content = await described(await Bun.file(path).bytes());
    contents.set(content.description.name, Promise.resolve(content));
  }
  const downloads: string[] = [];
  // Each package is packed once: packing the same files again would give another digest.
  const contentOf = (name: string) => {
    const content = contents.get(name) ?? installed(name);
    contents.set(name, content);
    return content;
  };
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    routes: {
      "/tarballs/:name": async ({ params: { name } }) => {
        downloads.push(name);
        return new Response((await contentOf(name))?.bytes);
      },
      "/:name": async ({ params: { name }, url }) => {
        const content = await contentOf(name);
        if (content === undefined) return new Response("there is no such package", { status: 404 });
        const { description, integrity } = content;
        const { version } = description;
        const tarball = new URL(`/tarballs/${encodeURIComponent(name)}`, url).href;
        const versions = { [version]: { ...description, dist: { tarball, integrity } } };
        return Response.json({ name, "dist-tags": { latest: version }, versions });
      },
    },
  });
  return { url: server.url.href, downloads, [Symbol.asyncDispose]: () => server.stop(true) };
}

interface Package {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly description: z.infer<typeof descriptionSchema>;
  readonly integrity: string;
}

async function described(bytes: Uint8Array<ArrayBuffer>): Promise<Package> {
  const files = await new Bun.Archive(bytes).files("package/package.json");
  const description = descriptionSchema.parse(await files.get("package/package.json")?.json());
  const integrity = `sha512-${new Bun.CryptoHasher("sha512").update(bytes).digest("base64")}`;
  return { bytes, description, integrity };
}

async function installed(name: string): Promise<Package | undefined> {
  const folder = join(packages, name);
  const files: Record<string, Uint8Array> = {};
  if (!(await Bun.file(join(folder, "package.json")).exists())) return undefined;
  for await (const path of new Bun.Glob("**").scan({ cwd: folder, dot: true })) {
    files[`package/${path}`] = await Bun.file(join(folder, path)).bytes();
  }
  return described(await new Bun.Archive(files, { compress: "gzip", level: 1 }).bytes());
}
