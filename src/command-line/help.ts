/** Help: what citty says of a command, in groups, with details and an example, fitted into the width of a terminal. */
import { type CommandDef, renderUsage } from "citty";
import { flagName } from "./arguments.ts";
import { programName } from "./program-name.ts";

/** What help says that citty has no place for. */
export interface HelpTexts {
  /** What a sentence cannot say; paragraphs, with an empty line between them. */
  readonly details?: string;
  /** Calls of it, a line each. */
  readonly example?: string;
  /** Names of groups of options, by the key of the option that begins each. */
  readonly groups?: Readonly<Record<string, string>>;
  /** Paragraphs and sections for the end. */
  readonly notes?: string;
}

/** Width of help that no terminal shows. */
const DEFAULT_WIDTH = 100;

/** The columns to fill of an output: what is hard to read is neither very narrow nor very wide. */
export function helpWidth(output: { readonly isTTY?: boolean; readonly columns?: number }): number {
  return output.isTTY && output.columns ? Math.min(Math.max(output.columns, 60), DEFAULT_WIDTH) : DEFAULT_WIDTH;
}

/** @param parent the program, for one of its commands */
export async function helpOf(command: CommandDef & HelpTexts, width: number, parent?: CommandDef): Promise<string> {
  const { details = "", example = "", groups = {}, notes = "" } = command;
  const usage = await renderUsage(command, parent);
  const [title = "", calls = "", ...sections] = usage.trimEnd().split("\n\n");
  const variables =
    "Every option can also be set by a variable, as --batch-size by SCONCE_BATCH_SIZE; a flag goes before it.";
  const blocks = [
    title,
    calls,
    details,
    ...sections.map((section) => grouped(section, groups)),
    usage.includes("--log-level") ? variables : "",
    notes.replaceAll(/^[A-Z]+$/gm, heading),
  ];
  const texts = blocks.map((block) => fitted(block, width));
  if (example !== "") {
    const pasted = example.replaceAll(/\bsconce (?=[a-z])/g, `${programName} `);
    texts.push(`${heading("EXAMPLE")}\n\n${pasted.replaceAll(/^/gm, "  ")}`);
  }
  return texts.filter(Boolean).join("\n\n");
}

/** Puts names between options. */
function grouped(rows: string, groups: Readonly<Record<string, string>>): string {
  const names = new Map(Object.entries(groups).map(([key, name]) => [flagName(key), name]));
  return rows
    .replaceAll(/^ .*?--([a-z-]+).*$/gm, (row, flag: string) => {
      const name = names.get(flag);
      return name === undefined ? row : `\n${heading(name)}\n${row}`;
    })
    .replace(/^\n/, "");
}

/** Wraps lines; in rows, which citty lines up on the right, only the text on the right of the name. */
function fitted(block: string, width: number): string {
  return block
    .split("\n")
    .map((line) => {
      const [, name = "", text = line] = /^ {2}( *\S.*?) {4,}(.*)$/.exec(line) ?? [];
      const column = name === "" ? "" : `  ${name.trimStart().padEnd(name.length)}  `;
      const rows = Bun.wrapAnsi(text.trimEnd(), width - Bun.stringWidth(column));
      return column + rows.replaceAll("\n", `\n${" ".repeat(Bun.stringWidth(column))}`);
    })
    .join("\n");
}

/** As citty has them; who prints it elsewhere than to a terminal takes the colours away. */
function heading(text: string): string {
  return `\u001b[1m\u001b[4m${text}\u001b[24m\u001b[22m`;
}
