/** The pages for readers, and what a reader uses of them: fenced blocks, commands, links. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

export interface Page {
  /** From the root of the checkout. */
  readonly path: string;
  readonly text: string;
}

/** The README, then the pages of docs/ in the order in which it names them. */
export async function readPages(root: string): Promise<Page[]> {
  const read = async (path: string) => ({ path, text: await readFile(join(root, path), "utf8") });
  const readme = await read("README.md");
  const table = readme.text.slice(readme.text.indexOf("\n## Where to go on"));
  const paths = new Set(linksOf(table).filter((link) => /^docs\/[\w-]+\.md$/.test(link)));
  return [readme, ...(await Promise.all([...paths].map(read)))];
}

/** Links to other files and headings; no addresses. */
export function linksOf(markdown: string): string[] {
  const prose = markdown.replace(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)]
    .map(([, link, source]) => link ?? source ?? "")
    .filter((link) => !/^[a-z]+:/.test(link));
}

/** Of its headings, as they are linked to. */
export function anchorsOf(markdown: string): Set<string> {
  const prose = markdown.replace(/^```[\s\S]*?^```$/gm, "");
  const slug = (title: string) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .trim()
      .replaceAll(" ", "-");
  return new Set([...prose.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => slug(title)));
}

export interface Block {
  /** `sh`, `json`, `ts`, … */
  readonly language: string;
  /** What follows the language: for files, the path that the text names them by. */
  readonly path: string | undefined;
  readonly content: string;
}

export function blocksOf(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w+)(?: (\S+))?\n([\s\S]*?)^```$/gm)].map(
    ([, language = "", path, content = ""]) => ({
      language,
      path,
      content,
    }),
  );
}

/** The commands of a shell block: lines, joined where a backslash continues them. */
export function commandsOf(block: Block): string[] {
  return block.content
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "");
}
