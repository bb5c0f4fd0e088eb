/** Help texts of commands and programs, made from their definitions. */
import type { Option, OptionTable } from "../../base/option.ts";
import { programName } from "../../machine/processes/program-name.ts";
import { type Command, type Commands, flagName, isSwitch, positionalName } from "./command.ts";

export interface HelpOptions {
  /** The command as users type it: `sconce serve`. */
  readonly name: string;
  readonly description: string;
  readonly width: number;
  /** Whether advanced options are shown too. */
  readonly isAll?: boolean;
  /** Set for the default command of a program: the help then lists all commands of the program, too. */
  readonly commands?: Commands;
}

/** Width of help in characters when the output is not a terminal. */
const DEFAULT_WIDTH = 100;

const variables =
  "Every option is also read from a variable, --batch-size from SCONCE_BATCH_SIZE; the option takes precedence.";

/** The width of help for an output in characters, from 60 to 100. */
export function helpWidth(output: { readonly isTTY?: boolean; readonly columns?: number }): number {
  return output.isTTY && output.columns ? Math.min(Math.max(output.columns, 60), DEFAULT_WIDTH) : DEFAULT_WIDTH;
}

export function commandHelp(command: Command, { name, description, width, isAll = false, commands }: HelpOptions) {
  const { options, positionals, groups = {}, details = "", example = "" } = command;
  const rows = optionRows(options, groups, isAll);
  const hidden = isAll ? 0 : Object.values(options).filter(({ isAdvanced }) => isAdvanced).length;
  return blocks([
    wrapped(`${description} (${name})`, width),
    `${heading("USAGE")} ${[name, "[OPTIONS]", ...positionals.map(usageOf)].join(" ")}`,
    wrapped(details, width),
    section(
      "ARGUMENTS",
      table(
        positionals.map((each) => [positionalName(each), `${each.description}${each.required ? " (required)" : ""}`]),
        width,
      ),
    ),
    section("OPTIONS", table(rows, width)),
    hidden === 0 ? "" : wrapped(`${hidden} more options: ${name} --help --all`, width),
    commands === undefined ? "" : commandList(commands, name, width),
    wrapped(variables, width),
    example && section("EXAMPLE", exampleText(example).replaceAll(/^/gm, "  ")),
  ]);
}

export interface ProgramHelpOptions extends Omit<HelpOptions, "isAll" | "commands"> {
  readonly commands: Commands;
  /** Paragraphs at the end of the help. */
  readonly notes: string;
}

export function programHelp({ name, description, width, commands, notes }: ProgramHelpOptions): string {
  return blocks([
    wrapped(`${description} (${name})`, width),
    `${heading("USAGE")} ${name} COMMAND`,
    commandList(commands, name, width),
    section(
      "ENVIRONMENT",
      table(
        [
          ["SCONCE_HOME", "Folder of models and predictions (default: sconce in your data directory)"],
          ["SCONCE_…", "Any option: SCONCE_BATCH_SIZE is --batch-size; the option takes precedence"],
          ["NO_COLOR", "Any value turns colours off"],
        ],
        width,
      ),
    ),
    wrapped(notes, width),
  ]);
}

/** Replaces `sconce` in an example by the words that the user typed to start it, such as `bunx sconce`. */
export function exampleText(example: string): string {
  return example.replaceAll(/\bsconce (?=[a-z])/g, `${programName} `);
}

/** The flag of an option as help shows it: `-p, --port=<n>`, or `--[no-]latest` for a switch that is on by default. */
export function flagText(key: string, option: Option<unknown>): string {
  const hint = isSwitch(option) ? "" : `=<${option.valueHint ?? "text"}>`;
  const negation = option.default === true ? "[no-]" : "";
  return `${option.alias === undefined ? "" : `-${option.alias}, `}--${negation}${flagName(key)}${hint}`;
}

/** The default of an option as help shows it; undefined if there is none. */
export function defaultText(option: Option<unknown>): string | undefined {
  if (option.described !== undefined) return option.described;
  if (option.isList) return "none";
  if (option.default === undefined) return undefined;
  return isSwitch(option) ? (option.default ? "on" : "off") : String(option.default);
}

function optionText(option: Option<unknown>): string {
  const stated = defaultText(option);
  const facts = [
    stated && `default: ${stated}`,
    option.variable && `variable: ${option.variable}`,
    option.otherVariable && `also read from ${option.otherVariable}`,
  ].filter(Boolean);
  return `${option.description}${facts.length > 0 ? ` (${facts.join("; ")})` : ""}`;
}

/** A row of help: a name and its text. A row without text is the heading of a group. */
type Row = readonly [name: string, text?: string];

function optionRows(options: OptionTable, groups: Readonly<Record<string, string>>, isAll: boolean): readonly Row[] {
  const rows: Row[] = [];
  let group: string | undefined;
  for (const [key, option] of Object.entries(options)) {
    group = groups[key] ?? group;
    if (option.isAdvanced && !isAll) continue;
    if (group !== undefined) rows.push([group]);
    group = undefined;
    rows.push([flagText(key, option), optionText(option)]);
  }
  return rows;
}

function commandList(commands: Commands, name: string, width: number): string {
  const rows = Object.entries(commands).map(([name, { description }]): Row => [name, description]);
  return `${section("COMMANDS", table(rows, width))}\n\n${wrapped(`\`${name} COMMAND --help\` explains a command.`, width)}`;
}

function usageOf(positional: Command["positionals"][number]): string {
  const name = positionalName(positional);
  return positional.required ? `<${name}>` : `[${name}]`;
}

/** Formats rows in two columns. The text of the second column is wrapped. */
function table(rows: readonly Row[], width: number): string {
  const column = Math.max(0, ...rows.map(([name, text]) => (text === undefined ? 0 : Bun.stringWidth(name)))) + 4;
  return rows
    .map(([name, text], i) => {
      if (text === undefined) return `${i === 0 ? "" : "\n"}${heading(name)}`;
      const lines = Bun.wrapAnsi(text, width - column).replaceAll("\n", `\n${" ".repeat(column)}`);
      return `  ${name}${" ".repeat(column - 2 - Bun.stringWidth(name))}${lines}`;
    })
    .join("\n");
}

function wrapped(text: string, width: number): string {
  return text
    .split("\n")
    .map((line) => Bun.wrapAnsi(line, width))
    .join("\n");
}

function section(title: string, body: string): string {
  return body && `${heading(title)}\n\n${body}`;
}

function blocks(parts: readonly string[]): string {
  return parts.filter(Boolean).join("\n\n");
}

/** Bold text. `print` removes the bold unless the output is a terminal. */
function heading(text: string): string {
  return `\u001b[1m${text}\u001b[22m`;
}
