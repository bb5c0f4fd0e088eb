/** What every command has in common: a table of options, checked values, help with an example. */
import { type CommandDef, defineCommand } from "citty";
import { commonOptions, type OptionTable, type OptionValues } from "../config.ts";
import { configureLog } from "../log.ts";
import { type Parsed, type Positional, parseArguments, toArgs } from "./arguments.ts";

export interface CommandOptions<O extends OptionTable> {
  readonly name: string;
  readonly description: string;
  /** A call of it, shown at the end of its help. */
  readonly example: string;
  readonly options: O;
  readonly positionals?: readonly Positional[];
  run(parsed: Parsed<O & typeof commonOptions>): Promise<void>;
}

export interface Command {
  /** What citty renders the help from. */
  readonly definition: CommandDef;
  readonly example: string;
  /** @param rawArgs what follows the command's name */
  run(rawArgs: readonly string[]): Promise<void>;
}

export function command<O extends OptionTable>({
  name,
  description,
  example,
  options,
  positionals = [],
  run,
}: CommandOptions<O>): Command {
  const all = { ...options, ...commonOptions };
  return {
    definition: defineCommand({ meta: { name, description }, args: toArgs(all, positionals) }),
    example,
    async run(rawArgs) {
      const parsed = parseArguments(rawArgs, all, positionals);
      const { logLevel: level, logFormat: format }: OptionValues<typeof commonOptions> = parsed.options;
      configureLog({ level, format });
      await run(parsed);
    },
  };
}
