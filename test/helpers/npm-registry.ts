/** A registry of npm packages on loopback: some from tarballs, all others as they lie in node_modules. Nothing comes from the network. */
import { join } from "node:path";
import { z } from "zod";

export interface NpmRegistry extends AsyncDisposable {
  readonly url: string;
  /** Names of the packages whose contents were asked for. */
  readonly downloads: readonly string[];
}

const packages = join(import.meta.dir, "..", "..", "node_modules");
const description = z.looseObject({ name: z.string(), version: z.string() });

export async function npmRegistry(tarballs: readonly string[]): Promise<NpmRegistry> {
  const contents = new Map<string, Promise<Uint8Array<ArrayBuffer> | undefined>>();
  for (const path of tarballs) {
    const bytes = await Bun.file(path).bytes();
    contents.set((await describe(bytes)).name, Promise.resolve(bytes));
  }
  const downloads: string[] = [];
  // Each is packed once: the same files packed again have another digest.
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
        return new Response(await contentOf(name));
      },
      "/:name": async ({ params: { name }, url }) => {
        const bytes = await contentOf(name);
        if (bytes === undefined) return new Response("there is no such package", { status: 404 });
        const described = await describe(bytes);
        const { version } = described;
        const tarball = new URL(`/tarballs/${encodeURIComponent(name)}`, url).href;
        const integrity = `sha512-${new Bun.CryptoHasher("sha512").update(bytes).digest("base64")}`;
        const versions = { [version]: { ...described, dist: { tarball, integrity } } };
        return Response.json({ name, "dist-tags": { latest: version }, versions });
      },
    },
  });
  return { url: server.url.href, downloads, [Symbol.asyncDispose]: () => server.stop(true) };
}

async function describe(tarball: Uint8Array<ArrayBuffer>) {
  const files = await new Bun.Archive(tarball).files("package/package.json");
  return description.parse(await files.get("package/package.json")?.json());
}

async function installed(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const folder = join(packages, name);
  const files: Record<string, Uint8Array> = {};
  if (!(await Bun.file(join(folder, "package.json")).exists())) return undefined;
  for await (const path of new Bun.Glob("**").scan({ cwd: folder, dot: true })) {
    files[`package/${path}`] = await Bun.file(join(folder, path)).bytes();
  }
  return new Bun.Archive(files, { compress: "gzip", level: 1 }).bytes();
}
