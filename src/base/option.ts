/** Declares options of commands: help text, default and parser. */
import { z } from "zod";

/** Declares an argument that a command takes by its place. */
export interface Positional {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  /** Takes all remaining arguments; only allowed for the last positional. */
  readonly isVariadic?: boolean;
  /** All allowed values; shell completions offer them for a command's first argument. */
  readonly values?: readonly string[];
}

export interface Option<T> {
  readonly description: string;
  readonly valueHint?: string;
  readonly alias?: string;
  /** Value when neither flag nor variable is given. */
  readonly default: T;
  /** The default as shown in help, if it is not simply the value. */
  readonly described?: string;
  /** Allows several uses of the flag; `parse` then receives one text with a value per line. */
  readonly isList?: boolean;
  /** Never printed in messages, which may end up in logs. */
  readonly isSecret?: boolean;
  /** Shown only by `--help --all`. */
  readonly isAdvanced?: boolean;
  /** Overrides the variable's name, when another command already uses the default name. */
  readonly variable?: string;
  /** A variable shared with other programs, read if the option's own variable is not set. */
  readonly otherVariable?: string;
  /** Type of the value in a TOML file, if it is no text: a number, bytes as a number or text, words as an array or text. */
  readonly fileForm?: "number" | "bytes" | "words";
  /** Path of a file. In a TOML file, a relative path begins at the folder of that file. */
  readonly isPath?: boolean;
  /** Parses the text of a flag or variable. */
  readonly parse: z.ZodType<Exclude<T, undefined>, string>;
}

export type OptionTable = Readonly<Record<string, Option<unknown>>>;

/** Parsed values of an option table. */
export type OptionValues<O extends OptionTable> = {
  readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never;
};

/** Declares an option with a default value. */
export function option<T>(declared: Option<T>): Option<T> {
  return declared;
}

/** Declares an option whose default is undefined; `described` explains the default behaviour. */
export function openOption<T>(declared: Omit<Option<T | undefined>, "default">): Option<T | undefined> {
  return { ...declared, default: undefined };
}

/** Declares a repeatable option, empty by default. The environment variable has one value per line. */
export function listOption<T>(
  declared: Omit<Option<T>, "default" | "isList" | "parse"> & { readonly parse: z.ZodType<T, string> },
): Option<readonly T[]> {
  const parse = z
    .string()
    .transform((lines) => lines.split("\n"))
    .pipe(z.array(declared.parse));
  return { ...declared, default: [], isList: true, parse };
}

const text = (pattern: RegExp, allowed: string) => z.string().regex(pattern, `must be ${allowed}`);

/** An integer. */
export function count(min: number, max = Number.MAX_SAFE_INTEGER) {
  const allowed = `a whole number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`;
  const parse = text(/^\d{1,15}$/, allowed)
    .transform(Number)
    .pipe(z.number().min(min, `must be ${allowed}`).max(max, `must be ${allowed}`));
  return { valueHint: "n", fileForm: "number", parse } as const;
}

/** Longest delay of a JavaScript timer; a longer delay fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * A time in the unit of `valueHint`, with optional fraction.
 * @param max by default the longest timer, 24 days
 */
export function duration(
  valueHint: "seconds" | "ms",
  min: number,
  max = Math.floor(MAX_TIMER_MS / (valueHint === "ms" ? 1 : 1000)),
) {
  const allowed = `a number ${max === Infinity ? `of at least ${min}` : `from ${min} to ${max}`}`;
  const parse = text(/^\d{1,12}(\.\d+)?$/, allowed)
    .transform(Number)
    .pipe(z.number().min(min, `must be ${allowed}`).max(max, `must be ${allowed}`));
  return { valueHint, fileForm: "number", parse } as const;
}

const unitBytes: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };
/** A byte count, including 0. */
export const anyBytes = text(/^\d{1,12}[kmg]?$/i, "a number of bytes, with k, m or g for KiB, MiB or GiB").transform(
  (given) => {
    const unit = given.slice(-1).toLowerCase();
    return unit in unitBytes ? Number(given.slice(0, -1)) * (unitBytes[unit] ?? 1) : Number(given);
  },
);

/** A positive byte count: a limit of 0 bytes would block everything. */
export const someBytes = {
  valueHint: "bytes",
  fileForm: "bytes",
  parse: anyBytes.refine((given) => given > 0, "must be at least 1"),
} as const;

/** A byte count; `described` is its default, e.g. "64m". */
export function bytes(described: string, parse: z.ZodType<number, string> = someBytes.parse) {
  return { valueHint: "bytes", fileForm: "bytes", default: anyBytes.parse(described), described, parse } as const;
}

/** Origins in the browsers' form: scheme, host, and the port unless it is the scheme's default. */
export const origins = {
  valueHint: "origin,…",
  fileForm: "words",
  parse: z
    .string()
    .transform((given) => given.split(","))
    .refine(
      (given) => given.every((each) => each === "*" || (/^https?:/.test(each) && URL.parse(each)?.origin === each)),
      "must be * or origins as https://example.com, with commas between them",
    ),
} as const;

/** Host names without ports; `*.` stands for any name below, `*` for all names. */
export const hosts = {
  valueHint: "host,…",
  fileForm: "words",
  parse: z
    .string()
    .transform((given) => given.toLowerCase().split(","))
    .refine(
      (given) => given.every((each) => /^(?:\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)$/.test(each)),
      "must be host names as models.example or *.example, with commas between them",
    ),
} as const;

export const flag = z
  .enum(["true", "false", "1", "0", ""], 'must be "true" or "false"')
  .transform((given) => given !== "false" && given !== "0");

/** A word from a list. */
export function choice<const V extends readonly string[]>(values: V) {
  return { valueHint: values.join("|"), parse: z.enum(values, `must be one of ${values.join(", ")}`) };
}
