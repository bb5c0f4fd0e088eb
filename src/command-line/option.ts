/** One option of a command: what help says of it, its default, and how its text is read. */
import { z } from "zod";

export interface Option<T> {
  readonly description: string;
  readonly valueHint?: string;
  readonly alias?: string;
  /** What applies when neither flag nor variable is given. */
  readonly default: T;
  /** How help states the default, where its value does not say it or it is decided elsewhere. */
  readonly described?: string;
  /** May be given several times; `parse` gets one text with a line each. */
  readonly isList?: boolean;
  /** Its text is not repeated, as logs keep what is. */
  readonly isSecret?: boolean;
  /** Its variable, where that of its name means something else for another command. */
  readonly variable?: string;
  /** A variable that others set too. It counts where the option's variable is not set. */
  readonly otherVariable?: string;
  /** Reads the text of a flag or variable. */
  readonly parse: z.ZodType<Exclude<T, undefined>, string>;
}

export type OptionTable = Readonly<Record<string, Option<unknown>>>;

/** What the options of a table are read into. */
export type OptionValues<O extends OptionTable> = {
  readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never;
};

/** An option with a default of its own. */
export function option<T>(declared: Option<T>): Option<T> {
  return declared;
}

/** An option that is undefined unless given; `described` says what applies then. */
export function openOption<T>(declared: Omit<Option<T | undefined>, "default">): Option<T | undefined> {
  return { ...declared, default: undefined };
}

/** An option that may be given several times, in a variable with a line each; none by default. */
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

/** A whole number. */
export function count(min: number, max = Number.MAX_SAFE_INTEGER) {
  const allowed = `a whole number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`;
  const parse = text(/^\d{1,15}$/, allowed)
    .transform(Number)
    .pipe(z.number().min(min, `must be ${allowed}`).max(max, `must be ${allowed}`));
  return { valueHint: "n", parse };
}

/** A timer that is set for longer fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * A time, with or without a fraction.
 * @param max in the unit of `valueHint`; by default what a timer takes, 24 days
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
  return { valueHint, parse };
}

/** A part of the whole, and not nothing of it. */
export const share = { ...duration("seconds", 0.01, 1), valueHint: "share" };

const unitBytes: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };
/** Also none. */
export const anyBytes = text(/^\d{1,12}[kmg]?$/i, "a number of bytes, with k, m or g for KiB, MiB or GiB").transform(
  (given) => {
    const unit = given.slice(-1).toLowerCase();
    return unit in unitBytes ? Number(given.slice(0, -1)) * (unitBytes[unit] ?? 1) : Number(given);
  },
);

/** A limit of 0 bytes would let nothing through. */
export const someBytes = {
  valueHint: "bytes",
  parse: anyBytes.refine((given) => given > 0, "must be at least 1"),
};

/** Bytes, by default so many as `described` says: "64m". */
export function bytes(described: string, parse: z.ZodType<number, string> = someBytes.parse) {
  return { valueHint: "bytes", default: anyBytes.parse(described), described, parse };
}

/** Origins as browsers send them: scheme, host and a port that is not the scheme's. */
export const origins = {
  valueHint: "origin,…",
  parse: z
    .string()
    .transform((given) => given.split(","))
    .refine(
      (given) => given.every((each) => each === "*" || (/^https?:/.test(each) && URL.parse(each)?.origin === each)),
      "must be * or origins as https://example.com, with commas between them",
    ),
};

export const flag = z
  .enum(["true", "false", "1", "0", ""], 'must be "true" or "false"')
  .transform((given) => given !== "false" && given !== "0");

/** One of some words. */
export function choice<const V extends readonly string[]>(values: V) {
  return { valueHint: values.join("|"), parse: z.enum(values, `must be one of ${values.join(", ")}`) };
}
