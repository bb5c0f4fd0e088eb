/** What every command has in common: a table of options, checked values, help with an example. */
import { type CommandDef, defineCommand } from "citty";
import { commonOptions } from "../config.ts";
import { configureLog } from "../log.ts";
import type { OptionTable, OptionValues } from "../option.ts";
import { type Parsed, type Positional, parseArguments, toArgs } from "./arguments.ts";
import type { HelpTopic } from "./help.ts";

export interface CommandOptions<O extends OptionTable> {
  readonly name: string;
  readonly description: string;
  /** What its help says beyond the description. */
  readonly details?: string;
  /** Calls of it, a line each, shown at the end of its help. */
  readonly example: string;
  readonly options: O;
  readonly positionals?: readonly Positional[];
  run(parsed: Parsed<O & typeof commonOptions>): Promise<void>;
}

export interface Command {
  /** As citty takes it. */
  readonly definition: CommandDef;
  readonly help: HelpTopic;
  /** @param rawArgs what follows the command's name */
  run(rawArgs: readonly string[]): Promise<void>;
}

export function command<O extends OptionTable>(options: CommandOptions<O>): Command {
  const { positionals = [], ...topic } = options;
  const all = { ...options.options, ...commonOptions };
  const run = async (rawArgs: readonly string[]) => {
    const parsed = parseArguments(rawArgs, all, positionals);
    const { logLevel: level, logFormat: format }: OptionValues<typeof commonOptions> = parsed.options;
    configureLog({ level, format });
    await options.run(parsed);
  };
  return {
    definition: defineCommand({
      meta: { name: topic.name, description: topic.description },
      args: toArgs(all, positionals),
      run: ({ rawArgs }) => run(rawArgs),
    }),
    help: { ...topic, positionals, options: all },
    run,
  };
}
