/**
 * `sconce completions SHELL`: prints completion scripts for bash, zsh and fish, made from the definitions of commands.
 */
import { z } from "zod";
import type { Option } from "../../base/option.ts";
import { type Command, type Commands, command, flagName, isSwitch, usage } from "../command-line/command.ts";

const shells = { bash, zsh, fish } as const;

/** Shell command that lists the names of models. */
const listModels = "sconce models 2>/dev/null | sed '1d;s/ .*//'";

type Completed = ReturnType<typeof completedOf>;
type Flag = ReturnType<typeof flagsOf>[number];

export function completionsCommand(commands: Commands): Command {
  const known = Object.keys(shells).join(", ");
  return command({
    details:
      "The script completes the command sconce. Put sconce on your PATH, or define sconce as an alias. Load the script in the start-up file of your shell.",
    example: `echo 'source <(sconce completions bash)' >> ~/.bashrc
sconce completions zsh > ~/.zfunc/_sconce
sconce completions fish > ~/.config/fish/completions/sconce.fish`,
    options: {},
    positionals: [{ name: "shell", description: known, required: true, values: Object.keys(shells) }],
    async run({ positionals: [given = ""] }) {
      const shell = Object.entries(shells).find(([name]) => name === given)?.[1];
      if (shell === undefined) throw usage(`SHELL must be one of ${known}, not ${given}`);
      const completed = Object.entries(commands).map(async ([name, { description, load }]) =>
        completedOf(name, description, await load()),
      );
      console.log(shell(await Promise.all(completed)));
    },
  });
}

/** Completions of a command: flags, fixed words for its first argument, and whether it takes a model. */
function completedOf(name: string, description: string, { positionals, options }: Command) {
  const flags = Object.entries(options).flatMap(([key, option]) => flagsOf(flagName(key), option));
  const takesModel = positionals.some(({ description }) => description.startsWith("repo[:tag]"));
  return { name, description, flags, words: positionals[0]?.values ?? [], takesModel };
}

/** Completions of an option: its flags and allowed values. Without allowed values, the shell completes file names. */
function flagsOf(name: string, option: Option<unknown>) {
  const { description, alias, parse } = option;
  const values = parse instanceof z.ZodEnum ? parse.options.map(String) : [];
  const flag = { name, alias, description, takesValue: !isSwitch(option), values };
  return option.default === true ? [flag, { ...flag, name: `no-${name}`, alias: undefined }] : [flag];
}

const names = ({ name, alias }: Flag) => (alias === undefined ? [`--${name}`] : [`-${alias}`, `--${name}`]);
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** The script for bash. Bash itself completes file names if no word matches. */
function bash(commands: readonly Completed[]): string {
  const cases = commands.map(({ name, flags, words, takesModel }) => {
    const first = words.length > 0 ? `\n          ((COMP_CWORD > 2)) || words='${words.join(" ")}'` : "";
    const values = Map.groupBy(
      flags.filter(({ takesValue }) => takesValue),
      (flag) => flag.values.join(" "),
    );
    const cases = [...values].map(([words, of]) => `        ${of.flatMap(names).join("|")}) words='${words}' ;;\n`);
    return `    ${name})
      case $previous in
${cases.join("")}        *) words="${takesModel ? `$(${listModels})` : ""}"${first}
          [[ $word != -* ]] || words='${flags.flatMap(names).join(" ")} --help' ;;
      esac ;;`;
  });
  return `_sconce() {
  local word=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} words=
  COMPREPLY=()
  # Bash splits --option=value and field=file into three words.
  if [[ $word == = || $previous == = ]]; then
    if [[ $word == = ]]; then word=; else previous=\${COMP_WORDS[COMP_CWORD-2]}; fi
    [[ $previous == -* ]] || return
  fi
  if ((COMP_CWORD == 1)); then words='${commands.map(({ name }) => name).join(" ")} help --help --version'
  else case \${COMP_WORDS[1]} in
${cases.join("\n")}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _sconce sconce`;
}

function zsh(commands: readonly Completed[]): string {
  const escaped = (text: string) => text.replaceAll(/[[\]:\\]/g, "\\$&");
  const cases = commands.map(({ name, flags, words, takesModel }) => {
    const first = words.length > 0 ? [quoted(`1:argument:(${words.join(" ")})`)] : [];
    const specs = flags.flatMap((flag) =>
      names(flag).map((one) => {
        const value = flag.values.length > 0 ? `:value:(${flag.values.join(" ")})` : ":value:_files";
        const equals = flag.takesValue && one.startsWith("--") ? "=" : "";
        return quoted(`*${one}${equals}[${escaped(flag.description)}]${flag.takesValue ? value : ""}`);
      }),
    );
    const others = takesModel ? "_sconce_models" : "_files";
    return `    ${name}) _arguments ${[...specs, "'--help'", ...first, quoted(`*:argument:${others}`)].join(" \\\n      ")} ;;`;
  });
  return `#compdef sconce
_sconce_models() { compadd -- $(${listModels}); _files }
_sconce() {
  local -a commands=(${commands.map(({ name, description }) => quoted(`${name}:${escaped(description)}`)).join("\n    ")})
  if ((CURRENT == 2)); then _describe command commands; return; fi
  shift words; ((CURRENT--))
  case $words[1] in
${cases.join("\n")}
  esac
}
if [[ $funcstack[1] == _sconce ]]; then _sconce; else compdef _sconce sconce; fi`;
}

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, description, flags, words, takesModel }) => {
    const seen = (...all: readonly string[]) => `__fish_seen_subcommand_from ${all.join(" ")}`;
    const within = `complete -c sconce -n '${seen(name)}'`;
    return [
      `complete -c sconce -f -n __fish_use_subcommand -a ${name} -d ${quoted(description)}`,
      ...flags.map(({ name, alias, description, takesValue, values }) => {
        const value = values.length > 0 ? ` -x -a ${quoted(values.join(" "))}` : takesValue ? " -r" : "";
        return `${within} -l ${name}${alias === undefined ? "" : ` -s ${alias}`}${value} -d ${quoted(description)}`;
      }),
      ...(words.length > 0
        ? [`complete -c sconce -f -n '${seen(name)}; and not ${seen(...words)}' -a ${quoted(words.join(" "))}`]
        : []),
      ...(takesModel ? [`${within} -a "(${listModels})"`] : []),
    ];
  });
  return lines.join("\n");
}
