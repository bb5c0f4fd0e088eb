/** Renders help: citty's usage text, plus option groups, details and an example, wrapped to the terminal's width. */
import { type CommandDef, renderUsage } from "citty";
import { programName } from "../../machine/processes/program-name.ts";
import { flagName } from "./arguments.ts";

/** Help texts beyond citty's. */
export interface HelpTexts {
  /** Paragraphs, separated by empty lines. */
  readonly details?: string;
  /** Example calls, one per line. */
  readonly example?: string;
  /** Group headings, by the key of the first option in each group. */
  readonly groups?: Readonly<Record<string, string>>;
  /** Paragraphs and sections at the end. */
  readonly notes?: string;
}

/** Width when the output is not a terminal. */
const DEFAULT_WIDTH = 100;

/** Text width for an output, within readable bounds. */
export function helpWidth(output: { readonly isTTY?: boolean; readonly columns?: number }): number {
  return output.isTTY && output.columns ? Math.min(Math.max(output.columns, 60), DEFAULT_WIDTH) : DEFAULT_WIDTH;
}

/** @param parent the program, when `command` is one of its commands */
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

/** Inserts group headings between options. */
function grouped(rows: string, groups: Readonly<Record<string, string>>): string {
  const names = new Map(Object.entries(groups).map(([key, name]) => [flagName(key), name]));
  return rows
    .replaceAll(/^ .*?--([a-z-]+).*$/gm, (row, flag: string) => {
      const name = names.get(flag);
      return name === undefined ? row : `\n${heading(name)}\n${row}`;
    })
    .replace(/^\n/, "");
}

/** Wraps lines. In rows, which citty aligns to the right, only the description is wrapped. */
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

/** Bold and underlined, as citty's headings. `print` strips this unless the output is a terminal. */
function heading(text: string): string {
  return `\u001b[1m\u001b[4m${text}\u001b[24m\u001b[22m`;
}
