/** Reads the documentation pages: their code blocks, commands and links. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const root = join(import.meta.dir, "../..");

export interface Page {
  /** Path of the page in the checkout. */
  readonly path: string;
  readonly text: string;
}

/** The README, then the pages of docs/ in the order of the README's table. */
export async function readPages(): Promise<Page[]> {
  const read = async (path: string) => ({ path, text: await readFile(join(root, path), "utf8") });
  const readme = await read("README.md");
  const table = readme.text.slice(readme.text.indexOf("\n## Where to go on"));
  const paths = new Set(linksOf(table).filter((link) => /^docs\/[\w-]+\.md$/.test(link)));
  return [readme, ...(await Promise.all([...paths].map(read)))];
}

/** Targets of the links to other files and to headings, but not to web addresses. */
export function linksOf(markdown: string): string[] {
  const prose = markdown.replace(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)]
    .map(([, link, source]) => link ?? source ?? "")
    .filter((link) => !/^[a-z]+:/.test(link));
}

/** Anchors of all headings, as GitHub makes them. */
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
  /** Language of the code block: `sh`, `json`, `ts`, … */
  readonly language: string;
  /** File path after the language, if the block shows a file. */
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

/** Commands of a shell block. A line that ends with a backslash is joined with the next. */
export function commandsOf(block: Block): string[] {
  return block.content
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "");
}

/** Whether tests run the block. Blocks of the language `bash` need tools that tests lack, such as Docker. */
export function isRun({ language, content }: Block): boolean {
  return language === "sh" && content.trim() !== "npm test";
}

/** Paths that the test of a page may have. It runs the blocks of the page. */
export function testsOf(page: string): string[] {
  const name = `docs-${/([\w-]+)\.md$/.exec(page)?.[1]?.toLowerCase()}.test.ts`;
  return [`test/${name}`, `test/long/${name}`];
}
