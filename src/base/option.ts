/** Declares options of commands: help text, default and parser. */
import { z } from "zod";

/** An argument that a command takes by position. */
export interface Positional {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  /** Takes all remaining arguments; only the last positional may be variadic. */
  readonly isVariadic?: boolean;
}

export interface Option<T> {
  readonly description: string;
  readonly valueHint?: string;
  readonly alias?: string;
  /** Value of an option that neither a flag, an environment variable nor the options file gives. */
  readonly default: T;
  /** The default as help shows it, if this differs from the value. */
  readonly described?: string;
  /** Allows several uses of the flag. `parse` then gets one text with a value per line. */
  readonly isList?: boolean;
  /** The value never appears in messages, which may end up in logs. */
  readonly isSecret?: boolean;
  /** Whether only `--help --all` shows the option. */
  readonly isAdvanced?: boolean;
  /** Name of the environment variable, when another command already uses the default name. */
  readonly variable?: string;
  /** An environment variable of other programs, read if the option's own variable is not set. */
  readonly otherVariable?: string;
  /**
   * Type of the value in a TOML file, by default a string. `bytes` and `address` are a number or string, `words` an array
   * or string.
   */
  readonly fileForm?: "number" | "bytes" | "address" | "words";
  /** Whether the value is a file's path. In a TOML file, a relative path starts at the folder of the TOML file. */
  readonly isPath?: boolean;
  /** Parses the text of a flag, an environment variable or an entry of the options file. */
  readonly parse: z.ZodType<Exclude<T, undefined>, string>;
}

export type OptionTable = Readonly<Record<string, Option<unknown>>>;

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

/** Declares a repeatable option, empty by default. The environment variable holds one value per line. */
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

const numeric = (pattern: RegExp, allowed: string, min: number, max: number) =>
  text(pattern, allowed)
    .transform(Number)
    .pipe(z.number().min(min, `must be ${allowed}`).max(max, `must be ${allowed}`));

/** Settings of an option that is an integer from `min` to `max`. */
export function count(min: number, max = Number.MAX_SAFE_INTEGER) {
  const allowed = `a whole number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`;
  return { valueHint: "n", fileForm: "number", parse: numeric(/^\d{1,15}$/, allowed, min, max) } as const;
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const addressForm = "a port from 0 to 65535, or an address and a port, such as 0.0.0.0:9000 or [::1]:9000";

/** Settings of an option that is a port of 127.0.0.1, or an address and a port. */
export const listenAddress = {
  valueHint: "[address:]port",
  fileForm: "address",
  parse: text(/^(?:(?:\[[\da-f:.]+\]|[\w.-]+):)?\d{1,5}$/i, addressForm)
    .transform((given): ListenAddress => {
      const colon = given.lastIndexOf(":");
      const host = colon < 0 ? "127.0.0.1" : given.slice(0, colon).replace(/^\[|\]$/g, "");
      return { host, port: Number(given.slice(colon + 1)) };
    })
    .refine(({ port }) => port <= 65535, `must be ${addressForm}`),
} as const;

/** Longest delay of a JavaScript timer. A longer delay would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Settings of an option that is a time in seconds or milliseconds, fractions allowed.
 * @param max by default the longest timer, 24 days
 */
export function duration(
  valueHint: "seconds" | "ms",
  min: number,
  max = Math.floor(MAX_TIMER_MS / (valueHint === "ms" ? 1 : 1000)),
) {
  const allowed = `a number ${max === Infinity ? `of at least ${min}` : `from ${min} to ${max}`}`;
  return { valueHint, fileForm: "number", parse: numeric(/^\d{1,12}(\.\d+)?$/, allowed, min, max) } as const;
}

const unitBytes: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };
/** Parses a byte count, including 0, such as `64m`. */
export const anyBytes = text(/^\d{1,12}[kmg]?$/i, "a number of bytes, with k, m or g for KiB, MiB or GiB").transform(
  (given) => {
    const unit = given.slice(-1).toLowerCase();
    return unit in unitBytes ? Number(given.slice(0, -1)) * (unitBytes[unit] ?? 1) : Number(given);
  },
);

/** Settings of an option that is a positive byte count. 0 is refused: a limit of 0 bytes would block everything. */
export const someBytes = {
  valueHint: "bytes",
  fileForm: "bytes",
  parse: anyBytes.refine((given) => given > 0, "must be at least 1"),
} as const;

/** Settings of an option that is a byte count. @param described the default as a text, e.g. "64m" */
export function bytes(described: string, parse: z.ZodType<number, string> = someBytes.parse) {
  return { valueHint: "bytes", fileForm: "bytes", default: anyBytes.parse(described), described, parse } as const;
}

/** Settings of an option with a list of web origins: `*` for all, or scheme, host and non-default port. */
export const origins = {
  valueHint: "origin,…",
  fileForm: "words",
  parse: z
    .string()
    .transform((given) => given.split(","))
    .refine(
      (given) => given.every((each) => each === "*" || each === "null" || isOrigin(each)),
      "must be *, null, or origins such as https://example.com and tauri://localhost, with commas between them",
    ),
} as const;

/**
 * Whether a text is an origin as a browser or an app's web view sends it (RFC 6454): a scheme, a host, and a port other
 * than the scheme's default. URL gives an origin only for the schemes of the web.
 */
function isOrigin(text: string): boolean {
  if (/^(?:https?|wss?|ftp):/.test(text)) return /^https?:/.test(text) && URL.parse(text)?.origin === text;
  return /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9._-]+(?::\d+)?$/.test(text);
}

/** Settings of an option with a list of host names. `*.example` means all names below example, `*` all names. */
export const hosts = {
  valueHint: "host,…",
  fileForm: "words",
  parse: z
    .string()
    .transform((given) => given.toLowerCase().split(","))
    .refine(
      (given) => given.every((each) => /^(?:\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)$/.test(each)),
      "must be host names such as models.example or *.example, with commas between them",
    ),
} as const;

const flag = z
  .enum(["true", "false", "1", "0", ""], 'must be "true" or "false"')
  .transform((given) => given !== "false" && given !== "0");

/** Settings of a flag with the default `true`; `--no-NAME` turns it off. */
export const flagOn = { default: true, parse: flag };

/** Settings of a flag with the default `false`. */
export const flagOff = { default: false, parse: flag };

export const filePath = { valueHint: "file", parse: z.string().min(1, "must be a file") } as const;

export const folderPath = { valueHint: "dir", parse: z.string().min(1, "must be a folder") } as const;

/** Settings of an option that is one word of a list. */
export function choice<const V extends readonly string[]>(values: V) {
  return { valueHint: values.join("|"), parse: z.enum(values, `must be one of ${values.join(", ")}`) };
}
