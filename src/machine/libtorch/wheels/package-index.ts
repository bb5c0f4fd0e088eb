/** Which wheels of a package there are: indexes (PEP 503 as HTML, PEP 691 as JSON) and folders or pages of links, as pip has them. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { z } from "zod";
import { limitFaults } from "../../../author/fault-limit.ts";
import type { IndexAnswer, IndexClient } from "./index-client.ts";
import { unavailable, unescaped } from "./index-client.ts";
import { normalizedName } from "./requirement.ts";
import { parseVersion, type Version } from "./version.ts";

export interface WheelLink {
  readonly filename: string;
  /** Normalized. */
  readonly name: string;
  readonly version: Version;
  /** `manylinux_2_28_x86_64`; several with dots between them. */
  readonly platforms: string;
  /** Without credentials. */
  readonly url: URL;
  /** Hexadecimal; what the index says. */
  readonly sha256: string | undefined;
}

export interface Places {
  readonly indexes: readonly string[];
  readonly links: readonly string[];
}

interface RawLink {
  readonly href: string;
  readonly filename: string;
  readonly sha256: string | undefined;
}

const jsonType = "application/vnd.pypi.simple.v1+json";
const accept = `${jsonType}, application/vnd.pypi.simple.v1+html;q=0.9, text/html;q=0.5`;
/** torch's own page is below a megabyte. */
const maxPageBytes = 64 * 1024 * 1024;

const pageSchema = z.looseObject({
  files: z.array(
    z.looseObject({
      filename: z.string(),
      url: z.string(),
      hashes: z.looseObject({ sha256: z.string().optional() }).optional(),
      yanked: z.union([z.boolean(), z.string()]).optional(),
    }),
  ),
});
limitFaults(pageSchema, 0);

export class PackageIndex {
  readonly client: IndexClient;
  readonly #indexes: readonly URL[];
  readonly #links: readonly URL[];

  constructor(client: IndexClient, { indexes, links }: Places) {
    this.client = client;
    this.#indexes = indexes.map((text) => client.withoutCredentials(text.replace(/\/*$/, "/")));
    this.#links = links.map((text) => client.withoutCredentials(text));
  }

  /** The places where it looks, without credentials, for people. */
  get places(): string {
    return [...this.#indexes, ...this.#links].map(shown).join(", ");
  }

  /** Every release of a package that is not withdrawn; those on this machine's disk come first. */
  async wheels(name: string): Promise<WheelLink[]> {
    const places = [...this.#indexes.map((index) => new URL(`${name}/`, index)), ...this.#links];
    const pages = await Promise.all(places.map((place) => this.#page(place)));
    const found = pages.flat().filter((wheel) => wheel.name === name);
    return [...found.filter(isLocal), ...found.filter((wheel) => !isLocal(wheel))];
  }

  async #page(place: URL): Promise<WheelLink[]> {
    const { base, links } = place.protocol === "file:" ? await localPage(place) : await this.#remotePage(place);
    return links.map((link) => toWheel(link, base)).filter((wheel) => wheel !== undefined);
  }

  #remotePage(place: URL): Promise<Page> {
    return this.client.ask(place, { Accept: accept }, async (answer) => {
      if (answer.status !== 200) return { base: place, links: [] };
      const text = await textOf(answer);
      const isJson = /json/.test(answer.headers.get("content-type") ?? "");
      return { base: answer.url, links: isJson ? jsonLinks(text, place) : await htmlLinks(text) };
    });
  }
}

interface Page {
  readonly base: URL;
  readonly links: readonly RawLink[];
}

/** Without what may be a secret. */
export function shown(url: URL): string {
  return url.protocol === "file:" ? fileURLToPath(url) : `${url.host}${url.pathname}`;
}

export function isLocal({ url }: WheelLink): boolean {
  return url.protocol === "file:";
}

/** A page, or a folder with one or with wheels in it; what is not there has no links. */
async function localPage(place: URL): Promise<Page> {
  const path = fileURLToPath(place);
  if (!existsSync(path)) return { base: place, links: [] };
  if (!statSync(path).isDirectory()) return { base: place, links: await htmlLinks(await Bun.file(path).text()) };
  const page = join(path, "index.html");
  if (existsSync(page)) return { base: pathToFileURL(page), links: await htmlLinks(await Bun.file(page).text()) };
  const links = readdirSync(path).map((filename) => ({
    href: pathToFileURL(join(path, filename)).href,
    filename,
    sha256: undefined,
  }));
  return { base: place, links };
}

function jsonLinks(text: string, place: URL): RawLink[] {
  const page = pageSchema.safeParse(parsed(text));
  if (!page.success) throw unavailable(`${shown(place)} is not a page of a package index`);
  return page.data.files
    .filter(({ yanked = false }) => yanked === false)
    .map(({ url, filename, hashes }) => ({ href: url, filename, sha256: hashes?.sha256 }));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `<a href="…/NAME.whl#sha256=…">`, without those that are withdrawn. */
async function htmlLinks(html: string): Promise<RawLink[]> {
  const links: RawLink[] = [];
  const anchors = new HTMLRewriter().on("a[href]:not([data-yanked])", {
    element(anchor) {
      const href = (anchor.getAttribute("href") ?? "").replaceAll("&amp;", "&");
      const [address = "", fragment = ""] = href.split("#", 2);
      const filename = unescaped(address.split("?", 1)[0]?.split("/").at(-1) ?? "");
      links.push({ href: address, filename, sha256: /\bsha256=([0-9a-f]{64})\b/i.exec(fragment)?.[1] });
    },
  });
  await anchors.transform(new Response(html)).text();
  return links;
}

/** https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention */
function toWheel({ href, filename, sha256 }: RawLink, base: URL): WheelLink | undefined {
  const [, name, text = "", platforms] =
    /^([\w.]+)-([^-/]+)(?:-\d[^-/]*)?-[^-/]+-[^-/]+-([^-/]+)\.whl$/.exec(filename) ?? [];
  const version = parseVersion(text);
  if (name === undefined || platforms === undefined || version === undefined || !URL.canParse(href, base.href)) return;
  const url = new URL(href, base);
  // A page from elsewhere names no file of this machine.
  if (url.protocol === "file:" && base.protocol !== "file:") return;
  return { filename, name: normalizedName(name), version, platforms, url, sha256: sha256?.toLowerCase() };
}

async function textOf(answer: IndexAnswer): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.chunks()) {
    bytes += chunk.length;
    if (bytes > maxPageBytes) throw unavailable(`${shown(answer.url)} is too long for a page of a package index`);
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString("utf8");
}
