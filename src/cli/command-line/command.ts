/** Common base of all commands: an option table, checked values, and help with an example. */
import { type ArgsDef, type CommandContext, type CommandDef, type CommandMeta, defineCommand } from "citty";
import type { OptionTable, Positional } from "../../base/option.ts";
import { commonOptions } from "../../server/config.ts";
import { checkArguments, type Parsed, toArgs } from "./arguments.ts";
import type { HelpTexts } from "./help.ts";

export interface CommandOptions<O extends OptionTable> extends HelpTexts {
  readonly name: string;
  readonly description: string;
  readonly options: O;
  readonly positionals?: readonly Positional[];
  run(parsed: Parsed<O & typeof commonOptions>): Promise<void>;
}

/** A command in citty's form. */
export interface Command extends HelpTexts, CommandDef {
  readonly meta: CommandMeta;
  readonly args: ArgsDef;
  readonly options: OptionTable;
  readonly positionals: readonly Positional[];
  run(context: CommandContext): Promise<void>;
}

/** A command that is loaded only to run or to show its help, not for the list of commands. */
export interface LazyCommand extends CommandDef {
  readonly meta: CommandMeta;
  load(): Promise<Command>;
}

export function command<O extends OptionTable>(declared: CommandOptions<O>): Command {
  const { name, description, positionals = [], run, ...help } = declared;
  const options = { ...declared.options, ...commonOptions };
  const definition = {
    meta: { name, description },
    args: toArgs(options, positionals),
    run: (context: CommandContext) => run(checkArguments(context, options, positionals)),
  };
  return { ...help, options, positionals, ...defineCommand(definition), ...definition };
}

export function lazyCommand(description: string, load: () => Promise<Command>): LazyCommand {
  return {
    meta: { description },
    load,
    args: async () => (await load()).args,
    run: async (context) => (await load()).run(context),
  };
}
