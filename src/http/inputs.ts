/** From a request's body to decoded inputs, or to a problem that names every fault. */
import type { Context } from "hono";
import * as z from "../model/z.ts";
import { type Fault, ProblemError } from "./problem.ts";

export interface InputLimits {
  readonly maxBodyBytes: number;
  readonly maxInputs: number;
}

export interface Inputs {
  readonly inputs: unknown[];
  /** Bytes of the body. */
  readonly bytes: number;
}

/** A body can hold more faults than anyone reads; more would only make a small request a large answer. */
const MAX_FAULTS = 1000;

/** Reads request bodies that are JSON arrays of `input`. */
export class InputReader {
  readonly #limits: InputLimits;
  readonly #schema: z.ZodType<unknown[]>;

  constructor(input: z.ZodType, limits: InputLimits) {
    this.#limits = limits;
    this.#schema = z.array(input);
  }

  /** @throws ProblemError 400, 413, 415 or 422 */
  async read(c: Context): Promise<Inputs> {
    const { raw } = c.req;
    checkMediaType(raw.headers.get("content-type"));
    const text = await readText(raw, this.#limits.maxBodyBytes);
    const body = parseJson(text);
    this.#checkList(body);
    const parsed = this.#schema.safeParse(body);
    if (!parsed.success) throw unfit(parsed.error.issues.flatMap((issue) => faultsOf(issue, [])));
    return { inputs: parsed.data, bytes: text.length };
  }

  /** Before every element is looked at: a list that is too long is refused for its length alone. */
  #checkList(body: unknown): void {
    const { maxInputs } = this.#limits;
    if (!Array.isArray(body)) {
      throw unfit([
        { pointer: "", detail: `expected a list of inputs, received ${nameOf(body)}; put a single input in [ ]` },
      ]);
    }
    if (body.length === 0)
      throw unfit([{ pointer: "", detail: "expected at least one input, received an empty list" }]);
    if (body.length > maxInputs) {
      throw unfit([
        {
          pointer: "",
          detail: `expected at most ${maxInputs} inputs, received ${body.length}; send them in several requests`,
        },
      ]);
    }
  }
}

function checkMediaType(given: string | null): void {
  if (given === "application/json" || given?.split(";", 1)[0]?.trim().toLowerCase() === "application/json") return;
  throw new ProblemError({
    status: 415,
    title: "Unsupported media type",
    code: "unsupported_media_type",
    detail: `expected the header Content-Type: application/json, received ${given === null ? "none" : JSON.stringify(given)}`,
  });
}

async function readText(request: Request, maxBytes: number): Promise<string> {
  const length = request.headers.get("content-length");
  if (length !== null) {
    if (Number(length) > maxBytes) throw tooLarge(maxBytes);
    return request.text();
  }
  // A chunked body tells its size only by coming to its end.
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.length;
    if (size > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

function tooLarge(maxBytes: number): ProblemError {
  return new ProblemError({
    status: 413,
    title: "Content too large",
    code: "body_too_large",
    detail: `a body may have at most ${maxBytes} bytes`,
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ProblemError({
      status: 400,
      title: "Bad request",
      code: "not_json",
      detail:
        text === ""
          ? "expected a JSON list of inputs, received an empty body"
          : `the body is not JSON: ${reasonOf(error)}`,
    });
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof RangeError) return "it is nested too deeply";
  return error instanceof Error ? error.message.replace(/^JSON Parse error: /, "") : "it cannot be parsed";
}

function unfit(faults: readonly Fault[]): ProblemError {
  const shown = faults.slice(0, MAX_FAULTS);
  const [first] = shown;
  const one = first === undefined ? "" : `${first.pointer === "" ? "" : `${first.pointer}: `}${first.detail}`;
  const more = faults.length > shown.length ? ` (the first ${MAX_FAULTS} are listed)` : "";
  return new ProblemError({
    status: 422,
    title: "Unprocessable content",
    code: "inputs_invalid",
    detail: faults.length === 1 ? one : `${faults.length} faults${more}, the first: ${one}`,
    errors: shown,
  });
}

/** A zod issue as faults: one for each unknown field, and for a union those of its nearest option. */
function faultsOf(issue: z.core.$ZodIssue, base: readonly PropertyKey[]): Fault[] {
  const path = [...base, ...issue.path];
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ pointer: pointerTo([...path, key]), detail: "is not a field of this input" }));
  }
  if (issue.code === "invalid_union" && issue.errors.length > 0) {
    const nearest = issue.errors.reduce((best, option) => (option.length < best.length ? option : best));
    if (nearest.length > 0) return nearest.flatMap((inner) => faultsOf(inner, path));
  }
  return [{ pointer: pointerTo(path), detail: detailOf(issue.message) }];
}

/** zod's message in the words of all the others: what was expected, what was received. */
function detailOf(message: string): string {
  return message.replace(/^Invalid input: /, "").replace(/received undefined$/, "but it is missing");
}

function pointerTo(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
