/** Generates the sections of docs/cli.md from the definitions of the commands. */

import type { Command } from "../../src/cli/command-line/command.ts";
import { flagName, positionalName, variableName } from "../../src/cli/command-line/command.ts";
import { defaultText, flagText } from "../../src/cli/command-line/help.ts";
import { commonOptions } from "../../src/server/config.ts";

interface NamedCommand {
  readonly name: string;
  readonly description: string;
  readonly command: Command;
}

export function cliPage(commands: readonly NamedCommand[]): string {
  const serve = commands.find(({ name }) => name === "serve");
  const served = new Map(serve === undefined ? [] : Object.entries(rowsOf(serve.command)));
  return commands.map((each) => sectionOf(each, each === serve ? new Map() : served)).join("\n");
}

/** A row for each option. The head of the page has the options that all commands share. */
function rowsOf({ options }: Command): Record<string, string> {
  return Object.fromEntries(
    Object.entries(options).flatMap(([key, option]) => {
      if (key in commonOptions) return [];
      const from = variablesOf(option, variableName(key));
      const flag = `\`${flagText(key, option)}\``;
      return [[key, row([flag, marked(defaultText(option) ?? ""), `${marked(option.description)}${from}`])]];
    }),
  );
}

/** @param served rows of `serve`: other commands only name their options with an equal row */
function sectionOf({ name, description, command }: NamedCommand, served: ReadonlyMap<string, string>): string {
  const { positionals, groups = {}, details = "", example = "" } = command;
  const calls = positionals.map((each) => (each.required ? `<${positionalName(each)}>` : `[${positionalName(each)}]`));
  const argumentRows = positionals.map((each) => row([`\`${positionalName(each)}\``, "", each.description]));
  const rows = Object.entries(rowsOf(command));
  const own = rows.filter(([key, text]) => served.get(key) !== text);
  const shared = rows.filter(([key, text]) => served.get(key) === text).map(([key]) => `\`--${flagName(key)}\``);
  const optionRows = own.flatMap(([key, text]) => {
    const isHeaded = groups[key] !== undefined && shared.length === 0;
    return isHeaded ? [row([`**${groups[key]}**`, "", ""]), text] : [text];
  });
  if (shared.length > 0) optionRows.push(row([shared.join(", "), "", "As for [serve](#sconce-serve)"]));
  return `## sconce ${name}

${description}.

\`\`\`text
${["sconce", name, "[OPTIONS]", ...calls].join(" ")}
\`\`\`

${marked(details)}

| argument or option | default | |
|---|---|---|
${[...argumentRows, ...optionRows].join("\n")}

\`\`\`text
${example}
\`\`\`
`;
}

/** The variables of an option, if they are not only the `usual` one. */
function variablesOf({ variable, otherVariable }: Command["options"][string], usual: string): string {
  if (variable !== undefined) return ` (variable: \`${variable}\`)`;
  return otherVariable === undefined ? "" : ` (variable: \`${usual}\`, else \`${otherVariable}\`)`;
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

/** Markdown of a help text: options and variables become code, and `*`, `<` and `>` outside of code are escaped. */
function marked(text: string): string {
  return text
    .split(/(`[^`]*`)/)
    .map((part, i) =>
      i % 2 === 1
        ? part
        : part
            .replaceAll(/[*<>]/g, "\\$&")
            .replaceAll(/(?<![\w-])(?:--[a-z][a-z-]*|-[a-z]|\$[A-Z_]+|SCONCE_[A-Z_]+)(?![\w-])/g, "`$&`"),
    )
    .join("");
}
