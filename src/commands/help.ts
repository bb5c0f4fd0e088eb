/** The help of a command and of all: what fits into the width of a terminal, lined up. */
import { commonOptions } from "../config.ts";
import type { Option, OptionTable } from "../option.ts";
import { defaultOf, flagName, isSwitch, type Positional, variableName } from "./arguments.ts";

/** What help says about one command. */
export interface HelpTopic {
  readonly name: string;
  readonly description: string;
  /** What a sentence cannot say; paragraphs, with an empty line between them. */
  readonly details?: string;
  readonly positionals: readonly Positional[];
  readonly options: OptionTable;
  readonly example: string;
}

const EXIT_CODES =
  "Exit codes: 0 done, 1 failed, 2 called wrongly. Results go to standard output, the rest to standard error.";

/** Width of help that no terminal shows. */
const DEFAULT_WIDTH = 100;
/** A first column that is wider than this has its text on the next line. */
const MAX_COLUMN = 34;

/** The columns to fill of an output: what is hard to read is neither very narrow nor very wide. */
export function helpWidth(output: { readonly isTTY?: boolean; readonly columns?: number }): number {
  return output.isTTY && output.columns ? Math.min(Math.max(output.columns, 60), DEFAULT_WIDTH) : DEFAULT_WIDTH;
}

export interface CommandHelpOptions {
  /** What is typed before the command's name. */
  readonly program: string;
  readonly width: number;
}

export function commandHelp(topic: HelpTopic, { program, width }: CommandHelpOptions): string {
  const { name, description, details, positionals, example } = topic;
  const usage = [program, name, "[options]", ...positionals.map(shapeOf)].join(" ");
  return sections(
    paragraph(description, width),
    `${heading("USAGE")} ${usage}`,
    ...(details === undefined ? [] : details.split("\n\n").map((text) => paragraph(text, width))),
    positionals.length > 0 &&
      section(
        "ARGUMENTS",
        positionals.map((one) => [shapeOf(one).replaceAll(/[[\]]/g, ""), one.description]),
        width,
      ),
    ...optionSections(topic, width),
    `${heading("EXAMPLE")}\n\n${example.replaceAll(/^/gm, "  ")}`,
  );
}

/** What the options are, those of all commands last, and how else they are set. */
function optionSections({ options }: HelpTopic, width: number): string[] {
  const own = Object.entries(options).filter(([key]) => !Object.hasOwn(commonOptions, key));
  const common = Object.entries(options).filter(([key]) => Object.hasOwn(commonOptions, key));
  const hasAlias = Object.values(options).some(({ alias }) => alias !== undefined);
  const row = ([key, option]: [string, Option<unknown>]) =>
    [labelOf(key, option, hasAlias), textOf(key, option)] as const;
  return [
    section("OPTIONS", [...own, ...common].map(row), width),
    paragraph(
      "Every option can also be set by a variable, as --batch-size by SCONCE_BATCH_SIZE; a flag goes before it.",
      width,
    ),
  ];
}

export interface ExecutableHelp {
  /** As it is typed. */
  readonly program: string;
  /** What it is, in a sentence. */
  readonly description: string;
  /** The command that is run where none is named. */
  readonly main: HelpTopic;
  /** Name and description of the others. */
  readonly commands: readonly (readonly [string, string])[];
}

/** Of a compiled executable, whose main command needs no name. */
export function executableHelp({ program, description, main, commands }: ExecutableHelp, width: number): string {
  return sections(
    paragraph(description, width),
    `${heading("USAGE")} ${program} [options]\n      ${program} <command> [options]`,
    ...(main.details === undefined ? [] : [paragraph(main.details, width)]),
    section("COMMANDS", commands, width),
    ...optionSections(main, width),
    paragraph(EXIT_CODES, width),
    `${program} <command> --help shows a command's options.`,
  );
}

export interface RootHelp {
  readonly version: string;
  /** Name and description. */
  readonly commands: readonly (readonly [string, string])[];
}

export function rootHelp({ version, commands }: RootHelp, width: number): string {
  return sections(
    `Packages PyTorch models and serves them over HTTP (sconce ${version})`,
    `${heading("USAGE")} sconce <command> [options]`,
    section("COMMANDS", commands, width),
    section(
      "ENVIRONMENT",
      [
        ["SCONCE_HOME", "The folder of the model store (default: sconce in your data directory)"],
        ["SCONCE_…", "Any option, as SCONCE_BATCH_SIZE for --batch-size; a flag goes before it"],
        ["NO_COLOR", "No colours, if it is set to anything"],
      ],
      width,
    ),
    paragraph(EXIT_CODES, width),
    "sconce <command> --help shows a command's options.",
  );
}

/** Bold for terminals; who prints it elsewhere takes it away. */
function heading(text: string): string {
  return `\u001b[1m${text}\u001b[22m`;
}

function sections(...parts: readonly (string | false)[]): string {
  return parts.filter((part) => part !== false).join("\n\n");
}

function section(title: string, rows: readonly (readonly [string, string])[], width: number): string {
  const fitting = rows.map(([label]) => label.length).filter((length) => length <= MAX_COLUMN);
  const column = Math.max(0, ...fitting);
  const lines = rows.flatMap(([label, text]) => {
    const [first = "", ...more] = wrap(text, width - column - 4);
    const rest = more.map((line) => " ".repeat(column + 4) + line);
    if (label.length <= column) return [`  ${label.padEnd(column)}  ${first}`.trimEnd(), ...rest];
    return [`  ${label}`, " ".repeat(column + 4) + first, ...rest];
  });
  return `${heading(title)}\n\n${lines.join("\n")}`;
}

function shapeOf({ name, required, isVariadic }: Positional): string {
  const shape = `${name.toUpperCase()}${isVariadic ? "…" : ""}`;
  return required ? shape : `[${shape}]`;
}

/** `-p, --port=<n>`; where some have a short form, the long ones stand below each other. */
function labelOf(key: string, option: Option<unknown>, hasAlias: boolean): string {
  const short = option.alias === undefined ? (hasAlias ? "    " : "") : `-${option.alias}, `;
  return `${short}--${flagName(key)}${isSwitch(option) ? "" : `=<${option.valueHint ?? "text"}>`}`;
}

function textOf(key: string, option: Option<unknown>): string {
  const facts = [
    defaultOf(option) && `default: ${defaultOf(option)}`,
    option.variable && `variable: ${variableName(key, option)}`,
  ].filter(Boolean);
  return `${option.description}${facts.length > 0 ? ` (${facts.join("; ")})` : ""}`;
}

function paragraph(text: string, width: number): string {
  return wrap(text, width).join("\n");
}

/** Lines of at most `width` characters; what stands in brackets at the end stays together where it fits. */
function wrap(text: string, width: number): string[] {
  const words = text
    .replace(/\([^()]*\)$/, (facts) => (facts.length > width / 2 ? facts : facts.replaceAll(" ", "\u00a0")))
    .split(" ");
  const lines: string[] = [];
  let line = "";
  for (const word of words) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].map((each) => each.replaceAll("\u00a0", " "));
}
