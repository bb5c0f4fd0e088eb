/** The fenced blocks of a Markdown file, as a reader would use them. */

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
